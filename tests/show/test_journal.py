from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest

from paddock.base.errors import PaddockError
from paddock.base.secret import MASK, Secret
from paddock.show.journal import Journal, PastRun, PastStep, folder, past_runs, usual_seconds
from paddock.show.reporter import Reporter
from paddock.show.timings import svg, table


def test_each_step_of_a_run_is_journalled_and_printed_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal("up")
    reporter = Reporter(journal)
    with reporter.run(), reporter.of("hermes").step("cattle.create", "create machine 105"):
        pass
    events = [json.loads(line) for line in journal.path.read_text().splitlines()]
    assert [event["event"] for event in events] == ["run", "begin", "done", "end"]
    run = PastRun.from_file(journal.path)
    assert run is not None
    assert (run.verb, run.outcome, [step.id for step in run.steps]) == ("up", "done", ["cattle.create"])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "✓ create machine 105" in printed.err


def test_a_failed_step_is_printed_and_its_error_masked_in_the_journal(capsys: pytest.CaptureFixture[str]) -> None:
    Secret("canary-value-10")
    journal = Journal("up")
    reporter = Reporter(journal)
    with pytest.raises(ValueError, match="boom"), reporter.run(), reporter.of("hermes").step("x", "do it"):
        raise ValueError("boom canary-value-10")
    text = journal.path.read_text()
    assert "canary-value-10" not in text
    assert MASK in text
    assert "✗ do it" in capsys.readouterr().err


def test_a_journal_that_ends_within_a_line_is_of_a_run_that_was_cut_off() -> None:
    journal = Journal("up")
    with Reporter(journal).of("hermes").step("x", "do it"):
        pass
    journal.close()
    with journal.path.open("a") as file:
        file.write('{"at": 1, "event": "beg')
    run = PastRun.from_file(journal.path)
    assert run is not None
    assert run.outcome == "cut off"


def test_the_timings_table_has_a_row_per_phase_and_a_column_per_run() -> None:
    assert table([]) == "no run with changes is recorded yet"
    for verb, phases in (("up", ["pet.create", "cattle.create"]), ("down", []), ("cycle", ["cattle.create"])):
        reporter = Reporter(Journal(verb))
        with reporter.run():
            for phase in phases:
                with reporter.of("hermes").step(phase, phase):
                    pass
    lines = table(past_runs(5)).splitlines()
    assert lines[0].split()[:3] == ["agent", "phase", "up"]
    assert [line.split()[1] for line in lines[1:3]] == ["pet.create", "cattle.create"]
    assert len(lines[2].split()) == 4
    assert lines[-1].split() == ["done", "done"]


def test_only_the_user_can_read_the_journals() -> None:
    Journal("up")
    assert folder().stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("found", "days", "kept"),
    [
        (600, 1, 500),  # surplus
        (500, 1, 500),
        (300, 1, 301),
        (300, 100, 21),  # old: the newest twenty stay
    ],
)
def test_old_and_surplus_journals_are_removed_and_the_newest_stay(found: int, days: int, kept: int) -> None:
    folder().mkdir(parents=True)
    begun = datetime.now(UTC) - timedelta(days=days)
    names = [f"{begun + timedelta(seconds=number):%Y%m%dT%H%M%S.%f}-up.jsonl" for number in range(found)]
    for name in [*names, "notes.txt"]:
        (folder() / name).touch()
    new = Journal("up").path.name
    assert sorted(path.name for path in folder().iterdir()) == [*names[found - kept + 1 :], new, "notes.txt"]


def test_the_usual_duration_of_a_step_is_the_median() -> None:
    def run(*seconds: float) -> PastRun:
        return PastRun("up", datetime.now(UTC), "done", tuple(PastStep("a", "x", each) for each in seconds))

    assert usual_seconds([run(1.0, 9.0), run(2.0)]) == {"x": 2.0}


def test_the_timeline_has_a_bar_for_every_step() -> None:
    steps = (PastStep("hermes", "cattle.clone", 0.3, 0.1), PastStep("hermes", "agent.answer", 2.0, 0.5))
    picture = svg([PastRun("up", datetime.now(UTC), "done", steps)])
    root = ElementTree.fromstring(picture)
    bars = [node for node in root.iter() if node.tag.endswith("rect") and node.attrib["height"] == "14"]
    assert len(bars) == 2
    assert float(bars[0].attrib["x"]) < float(bars[1].attrib["x"])
    assert float(bars[0].attrib["width"]) < float(bars[1].attrib["width"])


def test_runs_of_one_file_are_found_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for verb, files in (("up", ["a.yaml"]), ("down", ["b.yaml"]), ("cycle", ["a.yaml", "b.yaml"])):
        reporter = Reporter(Journal(verb, [Path(each) for each in files]))
        with reporter.run(), reporter.of("bee").step("id", "title"):
            pass
    found = {name: [run.verb for run in past_runs(9, [Path(name)])] for name in ("a.yaml", "b.yaml", "c.yaml")}
    assert found == {"a.yaml": ["up", "cycle"], "b.yaml": ["down", "cycle"], "c.yaml": []}
    assert [run.verb for run in past_runs(9, [tmp_path / "a.yaml", Path("b.yaml")])] == ["cycle"]
    assert [run.verb for run in past_runs(1, [Path("a.yaml")])] == ["cycle"]
    assert len(past_runs(9)) == 3


@pytest.mark.parametrize("fails", [False, True])
def test_the_journal_is_closed_when_the_run_ends(fails: bool) -> None:
    """A process with many runs would otherwise have a handle for each of them."""
    journal = Journal("up")
    with suppress(PaddockError), Reporter(journal).run():
        if fails:
            raise PaddockError("it fails")
    assert journal.path not in {handle.resolve() for handle in Path("/proc/self/fd").iterdir()}
