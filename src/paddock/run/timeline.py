"""Draw past runs as an SVG timeline, with one bar per step on a common scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from paddock.run.journal import PastRun

_WIDTH: Final = 900
_LEFT: Final = 170
_ROW: Final = 22
_COLOURS: Final = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1", "#edc948", "#9c755f")


def svg(runs: Sequence[PastRun]) -> str:
    """Return an SVG image of the runs, newest last."""
    longest = max((run.seconds for run in runs), default=0) or 1
    scale = (_WIDTH - _LEFT - 60) / longest
    phases = list(dict.fromkeys(step.id.partition(".")[0] for run in runs for step in run.steps))
    colours = {phase: _COLOURS[at % len(_COLOURS)] for at, phase in enumerate(phases)}
    body: list[str] = []
    top = 34
    for run in runs:
        title = f"{run.verb} {run.started:%Y-%m-%d %H:%M:%S}  {run.seconds:.1f} s  {run.outcome}"
        body.append(_text(10, top, title, weight="bold"))
        top += 8
        for step in run.steps:
            left = _LEFT + step.begins * scale
            width = max(step.seconds * scale, 1)
            colour = colours[step.id.partition(".")[0]]
            body.append(_text(20, top + 14, f"{step.agent} {step.id}"))
            body.append(f'<rect x="{left:.1f}" y="{top + 3}" width="{width:.1f}" height="14" rx="2" fill="{colour}"/>')
            body.append(_text(left + width + 4, top + 14, f"{step.seconds:.1f}"))
            top += _ROW
        top += 26
    return "\n".join(_frame(top, body))


def _frame(height: int, body: Sequence[str]) -> Iterator[str]:
    size = f'width="{_WIDTH}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    yield f'<rect {size} fill="white"/>'
    yield from body
    yield "</svg>"


def _text(left: float, top: float, text: str, weight: str = "normal") -> str:
    return f'<text x="{left:.1f}" y="{top}" font-weight="{weight}">{escape(text)}</text>'
