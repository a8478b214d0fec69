"""Progress in bytes and time left."""

from __future__ import annotations

import pytest

from clocks import SimulatedClock
from paddock.base import clock
from paddock.base.process import overheard, run
from paddock.base.secret import MASK, Secret
from paddock.onboard.stream.layout import announced, announcement
from paddock.show.reporter import Progress, Reporter, in_units, in_words

UNITS = ["0 B", "1023 B", "1 KiB", "3 MiB", "5.0 GiB"]


@pytest.mark.parametrize(
    ("done", "total", "recently", "seconds", "words"),
    [
        (0, None, 0, 0, "0 B"),
        (5 << 20, None, 5 << 20, 9, "5 MiB"),
        (5 << 20, 10 << 20, 5 << 20, 1, "5 MiB of 10 MiB"),
        (5 << 20, 10 << 20, 5 << 20, 10, "5 MiB of 10 MiB, 0:10 left"),
        (1 << 30, 100 << 30, 10 << 20, 10, "1.0 GiB of 100.0 GiB, 28:09:36 left"),
        (1 << 30, 1 << 30, 1, 10, "1.0 GiB of 1.0 GiB, 0:00 left"),
        (11 << 20, 10 << 20, 5 << 20, 10, "11 MiB"),  # the machine has named a wrong total
        (5 << 20, 10 << 20, 0, 10, "5 MiB of 10 MiB"),  # nothing came lately
    ],
)
def test_progress_in_words(done: int, total: int | None, recently: int, seconds: float, words: str) -> None:
    assert in_words(done, total, recently, seconds) == words


def test_numbers_of_bytes_have_a_unit() -> None:
    assert [in_units(count) for count in (0, 1023, 1024, 3 << 20, 5 << 30)] == UNITS


def test_it_is_shown_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = SimulatedClock()
    monkeypatch.setattr(clock, "current", simulated)
    shown: list[str] = []
    passed = Progress(shown.append, 1.0, lambda: 10 << 20)
    for _ in range(10):
        simulated.passed += 0.5
        passed(1 << 20)
    assert shown == [
        "2 MiB of 10 MiB",
        "4 MiB of 10 MiB, 0:03 left",
        "6 MiB of 10 MiB, 0:02 left",
        "8 MiB of 10 MiB, 0:01 left",
        "10 MiB of 10 MiB, 0:00 left",
    ]


def test_a_log_gets_a_line_rarely(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = SimulatedClock()
    monkeypatch.setattr(clock, "current", simulated)
    agent = Reporter().of("hermes")
    with agent.step("backup.save", "save it"):
        passed = agent.progress(lambda: None)
        for _ in range(65):
            simulated.passed += 1.0
            passed(1 << 20)
    lines = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert lines[:-1] == ["… save it", "… save it: 30 MiB", "… save it: 60 MiB"]


@pytest.mark.parametrize("said", ["", "about x bytes are to be sent", f"about {10**20} bytes are to be sent"])
def test_what_a_machine_says_is_not_believed(said: str) -> None:
    assert announced(said) is None


def test_an_announcement_is_found_among_other_lines() -> None:
    assert announced(f"Welcome!\n{announcement(123)}\nmore\n") == 123


def test_the_lines_of_a_program_are_overheard_without_secrets_and_only_where_asked() -> None:
    Secret("canary-value-20")
    heard: list[str] = []
    argv = [
        "sh",
        "-c",
        "echo out; echo canary-value-20 >&2; echo two >&2; head -c 70000 /dev/zero | tr '\\0' x >&2; echo >&2",
    ]
    with overheard(heard.append):
        found = run(argv)
    run(argv)
    assert heard == [MASK, "two"], "a line was lost or not masked, or a cut line was passed on"
    assert found.err.startswith(f"{MASK}\ntwo\nxxx")
