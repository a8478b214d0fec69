"""Past runs: a table of the durations of phases, and a timeline as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

from paddock.base.frozen import frozen
from paddock.show.journal import PastRun, PastStep
from paddock.show.table import cells, columns, cut

_WIDTH: Final = 900
_MARGIN: Final = 24
_BARS: Final = 344  # where the bars begin; the labels are left of it
_END: Final = _WIDTH - _MARGIN - 58  # where the longest bar ends; its time is right of it
_ROW: Final = 21
_LETTER: Final = 6.7  # pixels of a letter in a label, at most on average
_LABEL: Final = int((_BARS - 2 * _MARGIN) / _LETTER)  # letters of a label
_SHORT: Final = 0.02  # of the longest run: shorter steps in a row share one bar
_INTERVALS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)
_MOST_LINES: Final = 7  # of the scale
_FONTS: Final = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Ubuntu, Cantarell, 'Helvetica Neue', Arial, sans-serif"
)
# The subjects of the steps, by the beginnings of their ids. The colours differ for colour-blind people too.
_KINDS: Final = {
    "state": ("pet", "state"),
    "template": ("template",),
    "machine": ("cattle", "machine", "mounts"),
    "software": ("packages", "code", "image", "engine", "container"),
    "agent": ("agent",),
    "backup": ("backup", "drill", "source", "rollback"),
}
_OTHER: Final = "other"
# A halo keeps the lines of the scale away from the letters.
_STYLE: Final = """\
text { paint-order: stroke; stroke: #ffffff; stroke-width: 5px; stroke-linejoin: round }
.page { fill: #ffffff; stroke: #d0d7de } .text { fill: #1f2328 } .quiet { fill: #59636e } .line { stroke: #d8dee4 }
.state { fill: #8250df } .template { fill: #bc4c00 } .machine { fill: #0969da } .software { fill: #9a6700 }
.agent { fill: #1a7f37 } .backup { fill: #bf3989 } .other { fill: #6e7781 }
@media (prefers-color-scheme: dark) {
text { stroke: #0d1117 }
.page { fill: #0d1117; stroke: #30363d } .text { fill: #e6edf3 } .quiet { fill: #9198a1 } .line { stroke: #2a3038 }
.state { fill: #a371f7 } .template { fill: #f0883e } .machine { fill: #58a6ff } .software { fill: #d29922 }
.agent { fill: #3fb950 } .backup { fill: #f778ba } .other { fill: #8b949e } }"""


def svg(runs: Sequence[PastRun]) -> str:
    """Return an SVG image of the runs, newest last."""
    longest = max((run.seconds for run in runs), default=0) or 1
    drawing = _Drawing((_END - _BARS) / longest)
    bars = [list(_bars(run, longest * _SHORT)) for run in runs]
    lines = [line for run, own in zip(runs, bars, strict=True) for line in drawing.run(run, own)]
    if not runs:
        lines = [drawing.text(_MARGIN, drawing.down(22), "no run with changes is recorded yet", "quiet")]
    bottom = drawing.top + 4
    scale = list(drawing.scale(longest, bottom)) if runs else []
    kinds = list(dict.fromkeys(bar.kind for own in bars for bar in own))
    legend = list(drawing.legend(kinds, bottom + 18)) if runs else []
    height = bottom + 60 if runs else bottom + _MARGIN
    return "\n".join([*_head(runs, height), *scale, *lines, *legend, "</svg>", ""])


@frozen
class _Bar:
    label: str
    kind: str
    begins: float
    seconds: float


def _bars(run: PastRun, short: float) -> Iterator[_Bar]:
    """Yield a bar for each step. Short steps of one agent and kind that follow each other share one."""
    several = len({step.agent for step in run.steps}) > 1
    for (agent, kind, is_short), group in groupby(run.steps, lambda s: (s.agent, _kind(s), s.seconds < short)):
        steps = list(group)
        name = f"{agent}: " if several else ""
        for together in [steps] if is_short else [[step] for step in steps]:
            begins, last = together[0].begins, together[-1]
            yield _Bar(name + _label(together, _LABEL - cells(name)), kind, begins, last.begins + last.seconds - begins)


def _label(steps: Sequence[PastStep], most: int) -> str:
    titles = [step.title or step.id for step in steps]
    whole = ", ".join(titles)
    more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
    return whole if cells(whole) <= most else cut(titles[0], most - cells(more)) + more


def _kind(step: PastStep) -> str:
    first = step.id.partition(".")[0]
    return next((kind for kind, beginnings in _KINDS.items() if first in beginnings), _OTHER)


class _Drawing:
    """Draws from the top to the bottom."""

    def __init__(self, pixels: float) -> None:
        self._pixels = pixels  # for a second
        self.top = 40  # below the scale

    def down(self, rows: int) -> int:
        self.top += rows
        return self.top

    def run(self, run: PastRun, bars: Sequence[_Bar]) -> Iterator[str]:
        yield self.text(_MARGIN, self.down(22), f"paddock {run.verb}", "text", "bold")
        about = f"{run.started:%Y-%m-%d %H:%M} UTC, {_words(run.seconds)}, {run.outcome}"
        yield self.text(_BARS, self.top, about, "quiet")
        self.down(8)
        for bar in bars:
            left, width = _BARS + bar.begins * self._pixels, max(bar.seconds * self._pixels, 2)
            yield f'<rect class="{bar.kind}" x="{left:.1f}" y="{self.top + 3}" width="{width:.1f}" height="14" rx="3"/>'
            yield self.text(_MARGIN + 10, self.top + 14, cut(bar.label, _LABEL), "text")
            yield self.text(left + width + 6, self.top + 14, _words(bar.seconds), "quiet")
            self.down(_ROW)
        self.down(12)

    def scale(self, longest: float, bottom: int) -> Iterator[str]:
        interval = next((each for each in _INTERVALS if longest / each <= _MOST_LINES), longest)
        for at in range(int(longest / interval) + 1):
            left = _BARS + at * interval * self._pixels
            yield f'<line class="line" x1="{left:.1f}" x2="{left:.1f}" y1="42" y2="{bottom}"/>'
            yield self.text(left, 32, _words(at * interval, exact=False), "quiet", anchor="middle")

    def legend(self, kinds: Sequence[str], top: int) -> Iterator[str]:
        left = float(_BARS)
        for kind in kinds:
            yield f'<rect class="{kind}" x="{left:.1f}" y="{top + 4}" width="12" height="12" rx="3"/>'
            yield self.text(left + 18, top + 14, kind, "quiet")
            left += 18 + (cells(kind) + 3) * _LETTER

    @staticmethod
    def text(left: float, top: float, text: str, style: str, weight: str = "", anchor: str = "") -> str:
        more = (f' font-weight="{weight}"' if weight else "") + (f' text-anchor="{anchor}"' if anchor else "")
        return f'<text class="{style}" x="{left:.1f}" y="{top}"{more}>{_escaped(text)}</text>'


def _head(runs: Sequence[PastRun], height: int) -> Iterator[str]:
    said = "; ".join(f"{run.verb} took {_words(run.seconds)} and ended as {run.outcome}" for run in runs)
    steps = sum(len(run.steps) for run in runs)
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc"'
    yield f'  font-family="{_FONTS}" font-size="12">'
    yield '<title id="title">How long the steps of Paddock\'s runs took</title>'
    yield f'<desc id="desc">{_escaped(f"{len(runs)} runs with {steps} steps on one scale. {said}.")}</desc>'
    yield f"<style>\n{_STYLE}\n</style>"
    yield f'<rect class="page" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="8"/>'


def _words(seconds: float, *, exact: bool = True) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s" if exact else f"{seconds:g} s"
    return f"{int(seconds) // 60}:{int(seconds) % 60:02} min"


def _escaped(text: str) -> str:
    return escape(re.sub("[\ufffe\uffff]", "\ufffd", text))


def table(runs: Sequence[PastRun]) -> str:
    """Return a row per phase and a column per run, in seconds; phases in the order they first occurred."""
    if not runs:
        return "no run with changes is recorded yet"
    phases = list(dict.fromkeys((step.agent, step.id) for run in runs for step in run.steps))
    seconds = [_seconds(run) for run in runs]
    header = ["agent", "phase", *(f"{run.verb} {run.started:%H:%M:%S}" for run in runs)]
    rows = [
        [agent, phase, *(f"{each[agent, phase]:.1f}" if (agent, phase) in each else "" for each in seconds)]
        for agent, phase in phases
    ]
    total = ["", "total", *(f"{sum(each.values()):.1f}" for each in seconds)]
    outcome = ["", "", *(run.outcome for run in runs)]
    return columns([header, *rows, total, outcome])


def as_data(runs: Sequence[PastRun]) -> list[dict[str, Any]]:
    """Return the runs as data for JSON."""
    return [
        {
            "verb": run.verb,
            "started": run.started.isoformat(),
            "outcome": run.outcome,
            "steps": [{"agent": step.agent, "id": step.id, "seconds": step.seconds} for step in run.steps],
        }
        for run in runs
    ]


def _seconds(run: PastRun) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], float] = {}
    for step in run.steps:
        sums[step.agent, step.id] = sums.get((step.agent, step.id), 0.0) + step.seconds
    return sums
