"""A chart of stacked horizontal bars, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

# The colours of Okabe and Ito, which people with colour blindness can tell apart, and some of Paul Tol's.
_COLOURS: Final = (
    *("#0072b2", "#e69f00", "#009e73", "#56b4e9", "#d55e00", "#cc79a7", "#f0e442", "#999999"),
    *("#332288", "#882255", "#44aa99", "#ddcc77", "#117733", "#aa4499"),
)
_WIDTH, _MARGIN, _BAR, _LINE = 860, 24, 22, 18
_LETTER: Final = 6.3  # width of a letter at size 12, at most
_INK: Final = "#1f2328"


@dataclass(frozen=True)
class Bar:
    """A bar with its parts in order, from the left. Parts of one name have one colour in all bars."""

    label: str
    parts: Mapping[str, float]

    @property
    def length(self) -> float:
        return sum(self.parts.values())


@dataclass(frozen=True)
class Panel:
    """Bars on one scale, which begins at zero."""

    title: str
    bars: Sequence[Bar]


def svg(panels: Sequence[Panel], unit: str = "s") -> str:
    """Return the panels, one below the other."""
    names = dict.fromkeys(name for panel in panels for bar in panel.bars for name in bar.parts)
    colours = {name: _COLOURS[at % len(_COLOURS)] for at, name in enumerate(names)}
    parts: list[str] = []
    y = _MARGIN
    for panel in panels:
        scale = (_WIDTH - 2 * _MARGIN) / (max((bar.length for bar in panel.bars), default=0) or 1)
        parts.append(_text(_MARGIN, y + 12, panel.title, size=15, weight="bold"))
        y += 30
        for bar in panel.bars:
            parts.append(_text(_MARGIN, y + 12, f"{bar.label}: {bar.length:.1f} {unit}", size=13))
            y += 20
            parts.extend(_stack(bar, y, scale, colours))
            y += _BAR + 6
            if len(bar.parts) > 1:
                key, lines = _key(bar, y, colours)
                parts.extend(key)
                y += lines * _LINE
            y += 14
        y += 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" height="{y}"'
    style = 'font-family="system-ui, sans-serif"'
    paper = f'<rect width="{_WIDTH}" height="{y}" fill="#ffffff"/>'
    return "\n".join([f"{head} {style}>", paper, *parts, "</svg>"]) + "\n"


def _stack(bar: Bar, y: int, scale: float, colours: Mapping[str, str]) -> Iterator[str]:
    x = float(_MARGIN)
    for name, value in bar.parts.items():
        title = f"<title>{escape(name)}: {value:.2f}</title>"
        size = f'width="{value * scale:.1f}" height="{_BAR}"'
        yield f'<rect x="{x:.1f}" y="{y}" {size} fill="{colours[name]}">{title}</rect>'
        x += value * scale


def _key(bar: Bar, y: int, colours: Mapping[str, str]) -> tuple[list[str], int]:
    """Return the names and values of the parts below a bar, and in how many lines they are."""
    drawn, x, lines = [], float(_MARGIN), 1
    for name, value in bar.parts.items():
        shown = f"{name} {value:.1f}"
        width = 16 + len(shown) * _LETTER + 14
        if x + width > _WIDTH and x > _MARGIN:
            x, lines = float(_MARGIN), lines + 1
        top = y + (lines - 1) * _LINE
        drawn.append(f'<rect x="{x:.1f}" y="{top + 3}" width="10" height="10" fill="{colours[name]}"/>')
        drawn.append(_text(x + 15, top + 12, shown, size=12))
        x += width
    return drawn, lines


def _text(x: float, y: float, text: str, *, size: int, weight: str = "normal") -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="{_INK}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(text)}</text>'
