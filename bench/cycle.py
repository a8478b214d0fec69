"""Deploy and recreate one agent in three ways on one node, and compare the times until it answers a prompt.

  usual way   create from the base through the API, attach the state, then the Ansible playbook in bench/peer
  Paddock     `paddock up`, after `paddock down`
  floor       clone, boot, agent start and first answer with plain requests; everything is in the template already

All use the same node, base, Hermes and stand-in model, and end with the same check: a prompt is answered through that
model. The clock runs from the first request, or the start of the command, until the model answers the first prompt.
Paddock and the floor alternate, and the rounds of the usual way, which takes long, are spread among theirs. The first
deployments are measured once, with empty caches.

Needs root, on a machine where LXC works. The exit code is 1 if an aim is missed.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench import chart, results
from bench.figures import Aim, Spread

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bench.ways.floor import Floor
from bench.ways.ground import Ground, Way, check, ground
from bench.ways.meter import REST, Measured
from bench.ways.usual import UsualWay
from bench.ways.with_paddock import WithPaddock
from paddock.show.table import columns
from pvebox import unable_to_run

ABOVE_FLOOR: Final = 0.6  # seconds

Rounds = Mapping[str, Sequence[Measured]]  # by way


def main(argv: Sequence[str]) -> int:
    """Measure, print the tables and return the exit code."""
    parser = results.parser("cycle", __doc__)
    parser.add_argument("--rounds", type=int, help="recreates of Paddock and the floor (default: 10; 2 with --quick)")
    parser.add_argument("--peer-rounds", type=int, help="recreates of the usual way (default: 10; 0 with --quick)")
    options = parser.parse_args(argv)
    rounds = options.rounds or (2 if options.quick else 10)
    peer_rounds = (0 if options.quick else 10) if options.peer_rounds is None else options.peer_rounds
    if reason := unable_to_run():
        print(f"{reason} A recreate is not measured.", file=sys.stderr)
        return 1
    # What the tools print goes to stderr, and the result to stdout.
    with contextlib.redirect_stdout(sys.stderr), ground() as made:
        firsts, recreates = measured(made, rounds, peer_rounds)
    aim = Aim("Paddock until the first answer, seconds above the floor", _above(recreates).median, ABOVE_FLOOR)
    print(report(firsts, recreates, aim))
    data = {
        "first": {name: [each.as_data() for each in found] for name, found in firsts.items()},
        "recreate": {name: [each.as_data() for each in found] for name, found in recreates.items()},
        "aims": [aim.as_data()],
    }
    results.write(options.out, "cycle", data, drawn(recreates))
    return int(not aim.met)


def measured(ground: Ground, rounds: int, peer_rounds: int) -> tuple[Rounds, Rounds]:
    """Return the first deployments and the recreates of each way."""
    paddock = WithPaddock(ground)
    firsts = {paddock.name: [_checked(ground, paddock, paddock.first)]}
    floor = Floor(ground, *paddock.machine())
    ways: dict[str, Way] = {paddock.name: paddock, floor.name: floor}
    if peer_rounds:
        usual = UsualWay(ground)
        ways[usual.name] = usual
        firsts[usual.name] = [_checked(ground, usual, usual.first)]
        usual.remove()
    found: dict[str, list[Measured]] = {name: [] for name in ways}
    for at, name in enumerate(schedule(paddock.name, floor.name, UsualWay.name, rounds, peer_rounds)):
        way = ways[name]
        found[name].append(_checked(ground, way, way.recreate))
        print(f"recreate {at + 1}: {name}: {found[name][-1].answered:.2f} s", flush=True)
        way.remove()
    return firsts, found


def schedule(ours: str, floor: str, usual: str, rounds: int, peer_rounds: int) -> list[str]:
    """Return the order of the recreates: ours and the floor take turns to be first, the usual way is in between."""
    after = [int((each + 0.5) * rounds / peer_rounds) for each in range(peer_rounds)]
    order = []
    for at in range(rounds):
        order += [usual] * after.count(at)
        order += [ours, floor] if at % 2 == 0 else [floor, ours]
    return order


def _checked(ground: Ground, way: Way, deploy: Any) -> Measured:
    found: Measured = deploy()
    check(ground, way)
    return found


def _above(recreates: Rounds) -> Spread:
    """Return the seconds that Paddock takes longer than the floor until the first answer, round by round.

    The floor itself differs between machines and runs. What Paddock adds to it does so less.
    """
    pairs = zip(recreates[WithPaddock.name], recreates[Floor.name], strict=True)
    return Spread.of([ours.answered - floor.answered for ours, floor in pairs])


def report(firsts: Rounds, recreates: Rounds, aim: Aim) -> str:
    """Return the tables as text."""
    above = _above(recreates)
    header = ["recreate", "rounds", "first answer, s", "all checks, s", "memory, MiB", "API requests", "ssh commands"]
    rows = [header, *(_row(name, found) for name, found in recreates.items())]
    first = [["first deployment", *header[1:]], *(_row(name, found) for name, found in firsts.items())]
    return "\n".join(
        [
            columns(rows),
            "",
            columns(first),
            "",
            *(_phases(name, found) for name, found in recreates.items()),
            *(_phases(f"{name}, first deployment", found) for name, found in firsts.items()),
            "",
            "Medians; in brackets an interval that has the true median with at least 95 %, by order statistics.",
            "With fewer than six rounds it is the range, which covers less.",
            f"Paddock - floor, round by round: {above.shown(2)} s (covers {above.covers:.0%})",
            str(aim),
        ]
    )


def _row(name: str, found: Sequence[Measured]) -> list[str]:
    def middle(values: Sequence[float]) -> str:
        return f"{statistics.median(values):.0f}"

    tool = any(each.memory for each in found)
    return [
        name,
        str(len(found)),
        Spread.of([each.answered for each in found]).shown(),
        Spread.of([each.whole for each in found]).shown() if tool else "-",
        middle([each.memory / (1 << 20) for each in found]) if tool else "-",
        middle([each.requests for each in found]),
        middle([each.ssh for each in found]),
    ]


def _phases(name: str, found: Sequence[Measured]) -> str:
    shown = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in median_phases(found).items())
    return f"{name}: {shown}"


def median_phases(found: Sequence[Measured]) -> dict[str, float]:
    """Return the median seconds of each phase, in the order of the longest list of phases."""
    names = max((each.phases for each in found), key=len)
    return {name: statistics.median(each.phases.get(name, 0.0) for each in found) for name in names}


def drawn(recreates: Rounds) -> str:
    """Return the chart: all ways on one scale, and then those without the usual way on a larger one."""
    bars = {
        name: chart.Bar(name, {phase: each for phase, each in median_phases(found).items() if phase != REST})
        for name, found in recreates.items()
    }
    usual = bars.pop(UsualWay.name, None)
    close = chart.Panel("Paddock and the floor: where the time goes", list(bars.values()))
    if usual is None:
        return chart.svg([close])
    others = [chart.Bar(bar.label, {"all": bar.length}) for bar in bars.values()]
    every = chart.Panel("Recreate until the first answer", [*others, usual])
    return chart.svg([every, close])
