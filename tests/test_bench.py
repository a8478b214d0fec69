"""The benchmarks: statistics, counters, charts and exit codes; with `--all` also a short run of the real ones."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench import __main__ as program
from bench import chart, cycle, results
from bench.figures import Aim, Spread
from bench.ways.meter import FIRST_ANSWER, REST, Measured, Meter, phases
from bench.ways.usual import UsualWay, note_roles
from bench.ways.with_paddock import note_steps
from levels import slow_proof
from pvebox.standins.stage import ANSWERED

CHECKOUT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("count", "low", "high", "covers"),
    # Of ten sorted values, the median is outside the second to the ninth with probability 2 (1 + 10) / 1024.
    [(10, 2, 9, 0.979), (6, 1, 6, 0.969), (5, 1, 5, 0.938), (3, 1, 3, 0.75), (20, 6, 15, 0.959), (1, 1, 1, 0.0)],
)
def test_the_interval_ends_at_the_innermost_values_that_cover_95_percent(
    count: int, low: int, high: int, covers: float
) -> None:
    found = Spread.of([float(each) for each in range(count, 0, -1)])
    assert (found.median, found.low, found.high) == ((count + 1) / 2, low, high)
    assert found.covers == pytest.approx(covers, abs=0.001)


def test_one_measurement_is_shown_without_an_interval() -> None:
    assert Spread.of([4.25]).shown() == "4.2"
    assert Spread.of([1.0, 2.0, 4.0]).shown() == "2.0 (1.0 to 4.0)"


def test_the_phase_with_the_first_answer_is_split_and_nothing_is_lost() -> None:
    marks = [("clone", 11.0), ("start", 12.5), ("verify", 15.0), ("last", 16.0)]
    found = phases(10.0, marks, answered=13.5)
    assert found == {"clone": 1.0, "start": 1.5, FIRST_ANSWER: 1.0, REST: 2.5}
    assert sum(found.values()) == 6.0


def test_phases_of_paddock_are_read_from_its_journal(stage: Path) -> None:
    measuring = Meter(stage).start("Paddock")
    began = measuring.began
    events = [
        {"at": began + 0.1, "event": "run", "verb": "up"},
        {"at": began + 0.5, "event": "begin", "id": "cattle.clone"},
        {"at": began + 1.5, "event": "done", "id": "cattle.clone", "seconds": 1.0},
        {"at": began + 1.5, "event": "begin", "id": "template.create"},
        {"at": began + 2.0, "event": "done", "id": "template.create", "seconds": 0.5},
        {"at": began + 2.0, "event": "begin", "id": "template.seal"},
        {"at": began + 3.0, "event": "done", "id": "template.seal", "seconds": 1.0},
        {"at": began + 3.0, "event": "begin", "id": "agent.answer"},
        {"at": began + 5.0, "event": "done", "id": "agent.answer", "seconds": 2.0},
    ]
    journal = stage / "up.jsonl"
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    note_steps(measuring, journal, ended=began + 5.5)
    _answer(stage, began + 4.0)
    found = measuring.end()
    expected = {"read and plan": 0.5, "clone": 1.0, "build the template": 1.5, FIRST_ANSWER: 1.0, REST: 1.5}
    assert found.phases == pytest.approx(expected, abs=1e-3)
    assert found.answered == pytest.approx(4.0, abs=1e-3)
    assert found.whole == pytest.approx(5.5, abs=1e-3)


def test_roles_of_the_playbook_are_told_from_what_ansible_prints(stage: Path) -> None:
    printed = """
PLAY [all] ****

TASK [Gathering Facts] ****
ok: [10.0.0.5]

TASK [baseline : System packages] ****
TASK [agent : Is the agent on the volume already?] ****
TASK [configure : config.yaml] ****
RUNNING HANDLER [configure : restart hermes] ****
TASK [verify : A prompt goes through] ****
PLAY RECAP ****
"""
    measuring = Meter(stage).start("usual way")
    note_roles(measuring, printed.splitlines(keepends=True))
    _answer(stage, measuring.began + 60)
    assert list(measuring.end().phases) == ["baseline", "agent", "configure", "verify"]


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    (tmp_path / "sandbox").mkdir()
    (tmp_path / "sandbox/access.log").write_text("an earlier request\n")
    return tmp_path


def _answer(stage: Path, at: float, prompt: str = "Say ok.") -> None:
    with (stage / ANSWERED).open("a") as log:
        log.write(json.dumps({"at": at, "prompt": prompt}) + "\n")


def test_requests_ssh_commands_and_memory_are_counted_from_outside_the_tool(stage: Path) -> None:
    meter = Meter(stage)
    _answer(stage, 1.0)  # of an earlier round
    measuring = meter.start("tool")
    # The tool runs an ssh command, and a child of it uses 60 MB.
    script = """
import subprocess, sys, time
subprocess.run(["ssh", "-V"], check=True, stderr=subprocess.DEVNULL)
subprocess.run([sys.executable, "-c", "import time; block = bytearray(60_000_000); time.sleep(0.8)"])
"""
    environment = {**os.environ, "PATH": meter.path}
    with subprocess.Popen([sys.executable, "-c", script], env=environment) as tool, measuring.memory_of(tool):
        tool.wait()
    with (stage / "sandbox/access.log").open("a") as log:
        log.write("one\ntwo\n")
    _answer(stage, measuring.began + 0.25, "Write a title for this conversation.")
    _answer(stage, measuring.began + 0.5)
    measuring.done("work")
    found = measuring.end()
    assert (found.requests, found.ssh) == (2, 1)
    assert found.answered == pytest.approx(0.5, abs=1e-3)
    assert 60_000_000 < found.memory < 200_000_000


def test_a_deployment_without_an_answered_prompt_is_no_result(stage: Path) -> None:
    measuring = Meter(stage).start("tool")
    measuring.done("work")
    with pytest.raises(SystemExit, match="was not asked"):
        measuring.end()


def test_the_rounds_of_the_usual_way_are_spread_among_the_others() -> None:
    order = cycle.schedule("P", "F", "U", rounds=10, peer_rounds=3)
    assert "".join(order) == "PFUFPPFFPPFUFPPFFPUPFFP"
    assert [order.count(each) for each in "PFU"] == [10, 10, 3]
    assert cycle.schedule("P", "F", "U", rounds=2, peer_rounds=0) == ["P", "F", "F", "P"]


def _rounds(ours: float, floor: float) -> dict[str, list[Measured]]:
    def one(way: str, answered: float, memory: int = 0) -> Measured:
        parts = {"clone & start": answered - 1, FIRST_ANSWER: 1.0, REST: 0.5}
        return Measured(way, answered, answered + 0.5, parts, requests=30, ssh=6, memory=memory)

    return {
        "Paddock": [one("Paddock", ours, 80 << 20)] * 10,
        "floor": [one("floor", floor)] * 10,
        UsualWay.name: [one(UsualWay.name, 110.0, 300 << 20)] * 3,
    }


@pytest.mark.parametrize(("ours", "code"), [(4.5, 0), (4.7, 1)])
def test_an_aim_that_is_missed_is_said_and_makes_the_exit_code_1(
    ours: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    firsts = {"Paddock": _rounds(60.0, 4.0)["Paddock"][:1]}
    monkeypatch.setattr(cycle, "unable_to_run", lambda: None)
    monkeypatch.setattr(cycle, "ground", lambda: pytest.MonkeyPatch.context())
    monkeypatch.setattr(cycle, "measured", lambda *_: (firsts, _rounds(ours, 4.0)))
    assert cycle.main(["--out", str(tmp_path / "out")]) == code
    said = capsys.readouterr().out
    assert said.endswith("met\n" if code == 0 else "MISSED\n")
    assert "4.5 (4.5 to 4.5)" in said or code
    written = json.loads((tmp_path / "out/cycle.json").read_text())
    assert written["aims"][0]["met"] is (code == 0)
    assert len(written["recreate"]["floor"]) == 10
    assert written["machine"]["cores"] == os.cpu_count()
    ElementTree.parse(tmp_path / "out/cycle.svg")


def test_the_chart_has_the_parts_in_proportion_and_escapes_their_names() -> None:
    bars = [chart.Bar("long", {"a & b": 3.0, "<c>": 1.0}), chart.Bar("short", {"a": 2.0})]
    root = ElementTree.fromstring(chart.svg([chart.Panel("two", bars)]))
    named = "{http://www.w3.org/2000/svg}"
    widths = {
        rect.find(f"{named}title").text: float(rect.attrib["width"])  # type: ignore[union-attr]
        for rect in root.iter(f"{named}rect")
        if rect.find(f"{named}title") is not None
    }
    assert widths["a & b: 3.00"] == pytest.approx(3 * widths["<c>: 1.00"], rel=0.01)
    assert widths["a: 2.00"] == pytest.approx(2 * widths["<c>: 1.00"], rel=0.01)
    assert "<c> 1.0" in [text.text for text in root.iter(f"{named}text")]


def test_all_benchmarks_run_and_one_missed_aim_makes_the_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def ran(command: list[str]) -> int:
        asked.append(command)
        return int("fleet" in command)

    monkeypatch.setattr(program, "run_apart", ran)
    assert program.main(["--quick"]) == 1
    assert asked == [[sys.executable, "-m", "bench", name, "--quick"] for name in program.BENCHMARKS]
    assert "Aims missed, or not measured, in: fleet" in capsys.readouterr().out


def test_one_benchmark_gets_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[str]]] = []

    def found(name: str) -> Any:
        def ran(argv: list[str]) -> int:
            asked.append((name, argv))
            return 0

        return types.SimpleNamespace(main=ran)

    monkeypatch.setattr(importlib, "import_module", found)
    assert program.main(["cycle", "--rounds", "3"]) == 0
    assert asked == [("bench.cycle", ["--rounds", "3"])]
    assert program.main(["--fast"]) == 2
    assert program.main(["--help"]) == 0


def test_a_signal_ends_the_running_benchmark_once_and_waits_until_it_has_cleaned_up(tmp_path: Path) -> None:
    made, signals = tmp_path / "made", tmp_path / "signals"
    child = f"""
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    pathlib.Path({str(made)!r}).touch()
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    open({str(signals)!r}, "a").write("one ")
    pathlib.Path({str(made)!r}).unlink()
"""
    parent = f"""
import signal, sys
from bench.__main__ import run_apart
signal.signal(signal.SIGTERM, signal.default_int_handler)
signal.signal(signal.SIGINT, signal.default_int_handler)
run_apart([sys.executable, "-c", {child!r}])
"""
    for number in (signal.SIGTERM, signal.SIGINT):
        running = subprocess.Popen([sys.executable, "-c", parent], cwd=CHECKOUT, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while not made.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        running.send_signal(number)
        running.wait(30)
        assert not made.exists()
    assert signals.read_text() == "one one "


def test_results_are_not_written_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    results.write(None, "x", {}, "<svg/>")
    assert list(tmp_path.iterdir()) == []
    assert str(Aim("time", 2.5, 2)) == "time: 2.50, at most 2: MISSED"


@slow_proof
@pytest.mark.live
@pytest.mark.agent
def test_a_recreate_is_measured_with_real_containers_and_a_real_agent(
    tmp_path: Path, show_table: Callable[[str], None]
) -> None:
    """The aim is not asserted: other tests use the processors too."""
    command = [sys.executable, "-m", "bench", "cycle", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=900, check=False)
    assert done.stdout, done.stderr[-3000:]
    show_table(done.stdout)
    found = json.loads((tmp_path / "cycle.json").read_text())["recreate"]
    assert {name: len(rounds) for name, rounds in found.items()} == {"Paddock": 2, "floor": 2}
