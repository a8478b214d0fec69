"""The progress of a run on a real pseudo-terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from terminal import Display, terminal

# A run of some agents with some steps each. Words of the command line are agents; `steps` and `seconds` are settings.
PLAYER = """\
import sys, threading, time
from types import SimpleNamespace
from paddock.show.reporter import Reporter
from paddock.base.secret import MaskedStream, Secret

Secret("canary-value-19")
sys.stdout, sys.stderr = MaskedStream(sys.stdout), MaskedStream(sys.stderr)
count, seconds, *agents = sys.argv[1:]
steps = [SimpleNamespace(id=f"s{at}", title=f"step {at} of a plan that has many of them") for at in range(int(count))]
reporter = Reporter(parallel=len(agents) > 1)


def during(agent, step): ...


def work(agent):
    with agent.plan(steps):
        for step in steps:
            with agent.step(step.id, step.title):
                agent.output(f"output of {step.id}")
                during(agent, step)
                time.sleep(float(seconds))
    agent.finish()


def main():
    with reporter.run():
        threads = [threading.Thread(target=work, args=(reporter.of(name),), daemon=True) for name in agents]
        for thread in threads[1:]:
            thread.start()
        work(reporter.of(agents[0]))
        for thread in threads[1:]:
            thread.join()
    print("that is all")
"""
START = "\n\ntry:\n    main()\nexcept KeyboardInterrupt:\n    sys.exit(130)\n"
RUNNING = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]|  · |… \\d+ (done|to come)|of \\d+ done|output of")


@pytest.fixture
def player(tmp_path: Path) -> Path:
    path = tmp_path / "player.py"
    path.write_text(PLAYER + START)
    return path


def player_with(folder: Path, during: str) -> Path:
    """Return a player that does something during each step."""
    path = folder / "player.py"
    path.write_text(f"{PLAYER}\n\ndef during(agent, step):\n    {during}\n{START}")
    return path


def recorded(count: int, prefix: str = "") -> list[str]:
    return [f"  ✓ {prefix}step {at} of a plan that has many of them" for at in range(count)]


def without_times(lines: list[str]) -> list[str]:
    return [re.sub(r" +\d+\.\d s$", "", line) for line in lines]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (70, 4)])
def test_one_agent_leaves_a_line_for_each_step_and_nothing_of_the_frame(player: Path, width: int, height: int) -> None:
    with terminal(player, "12", "0.1", "hermes", width=width, height=height) as seen:
        seen.expect("… " if height < 12 else "of 12 done")
        assert seen.end() == 0
    assert without_times(seen.display.lines) == [*without_times(recorded(12)), "that is all"]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (80, 8)])
def test_four_agents_leave_their_steps_together_and_nothing_of_the_frame(player: Path, width: int, height: int) -> None:
    names = ("one", "two", "three", "four")
    with terminal(player, "9", "0.1", *names, width=width, height=height) as seen:
        seen.expect("four: " if height < 9 else "four  ")
        assert seen.end() == 0
    lines = without_times(seen.display.lines)
    assert not [line for line in lines if RUNNING.search(line)]
    assert lines.pop() == "that is all"
    assert sorted(lines) == sorted(line for name in names for line in recorded(9, f"{name}: "))
    for name in names:
        own = [at for at, line in enumerate(lines) if f" {name}: " in line]
        assert own == list(range(own[0], own[0] + 9)), "the steps of an agent are not together"


def test_the_steps_to_come_are_shown_from_the_start(player: Path) -> None:
    with terminal(player, "5", "30", "hermes") as seen:
        seen.expect("output of s0")
        seen.settle()
        shown = [line[2:] for line in without_times(seen.display.lines)]
    assert shown[0][1:8] == " step 0"
    assert shown[1] == "  output of s0"
    assert [line[:8] for line in shown[2:6]] == [f"· step {at}" for at in range(1, 5)]


def test_a_terminal_that_changes_its_size_keeps_nothing_of_the_frame(player: Path) -> None:
    with terminal(player, "8", "0.3", "hermes", width=120) as seen:
        seen.expect("1 of 8 done")
        seen.resize(50, 24)
        seen.expect("3 of 8 done")
        seen.resize(100, 30)
        assert seen.end() == 0
    assert not [line for line in seen.display.lines if RUNNING.search(line)], "\n".join(seen.display.lines)
    assert len([line for line in seen.display.lines if line.startswith("  ✓ ")]) == 8


def test_text_that_is_printed_meanwhile_is_whole_and_above_the_frame(tmp_path: Path) -> None:
    during = (
        "agent.say(f'said {step.id}'); agent.warn('run this as root:\\n  pct set 105 -mp0 ' + 'x' * 90);"
        "print('a question? ', end='', file=sys.stderr); time.sleep(0.3); print('answered'); time.sleep(0.1)"
    )
    with terminal(player_with(tmp_path, during), "3", "0.1", "hermes") as seen:
        assert seen.end() == 0
    shown = "\n".join(seen.display.lines)
    block = "  run this as root:\n        pct set 105 -mp0 " + "x" * 55 + "\n" + "x" * 35 + "\na question? answered\n"
    assert shown.count(block) == 3, shown
    assert [line for line in seen.display.lines if line.startswith("  said")] == [f"  said s{at}" for at in range(3)]
    assert not RUNNING.search(shown.replace("output of", "")), shown


def test_no_text_of_an_agent_acts_on_the_terminal(tmp_path: Path) -> None:
    during = (
        r"agent.output('\x1b]0;mine\x07 [bold]loud[/bold] \r\x1b[2J \u202e canary-value-19'); time.sleep(0.3);"
        r"agent.say('\x1b[31mred\nnext line canary-value-19')"
    )
    with terminal(player_with(tmp_path, during), "2", "0.1", "one", "two", width=120) as seen:
        seen.expect("[bold]loud[/bold]")
        assert seen.end() == 0
    assert not re.search("\x1b\\]|\x1b\\[2J|\x1b\\[31m|\x07|\u202e", seen.raw), "an agent's escape acts"
    assert "canary-value-19" not in seen.raw


def test_no_colour_is_used_if_the_user_wants_none(player: Path) -> None:
    with terminal(player, "3", "0.1", "hermes", environment={"NO_COLOR": "1"}) as seen:
        assert seen.end() == 0
    assert not re.search(r"\x1b\[[0-9;]*m", seen.raw)
    assert "of 3 done" in seen.raw, "there is no frame"


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"PYTHONIOENCODING": "ascii:backslashreplace"}])
def test_a_terminal_that_cannot_draw_gets_the_lines_of_a_log(player: Path, environment: dict[str, str]) -> None:
    with terminal(player, "2", "0.1", "one", "two", environment=environment) as seen:
        assert seen.end() == 0
    assert "\x1b" not in seen.raw


def test_a_log_gets_two_lines_for_each_step(player: Path) -> None:
    done = subprocess.run([sys.executable, player, "2", "0.1", "hermes"], capture_output=True, text=True, timeout=60)
    titles = [f"step {at} of a plan that has many of them" for at in range(2)]
    assert re.search(r"them  0\.\d s$", done.stderr)
    lines = without_times(done.stderr.splitlines())
    assert lines == [line for title in titles for line in (f"  … {title}", f"  ✓ {title}")]


@pytest.mark.parametrize("agents", [("hermes",), ("one", "two", "three")])
def test_ctrl_c_leaves_one_line_for_each_agent_and_a_usable_terminal(player: Path, agents: tuple[str, ...]) -> None:
    with terminal(player, "5", "30", *agents) as seen:
        seen.expect("output of s0", len(agents))
        seen.type("\x03")
        assert seen.end() == 130
        echoes = seen.echoes()
    shown = [line.removeprefix("^C") for line in seen.display.lines]
    failed = [line for line in shown if line.startswith("  ✗ ")]
    assert len(failed) == len(agents), "\n".join(shown)
    assert not [line for line in shown if RUNNING.search(line)], "\n".join(shown)
    assert seen.raw.count("\x1b[?7l") == seen.raw.count("\x1b[?7h")
    assert seen.display.wraps
    assert echoes, "the terminal shows no keys any more"
    assert "\x1b[?25l" not in seen.raw


def test_enter_leaves_nothing_of_the_frame(player: Path) -> None:
    with terminal(player, "6", "0.3", "hermes") as seen:
        for done in (1, 2, 3):
            seen.expect(f"{done} of 6 done")
            seen.type("\n\n")
        assert seen.end() == 0
        assert seen.echoes(), "the terminal shows no keys any more"
    assert without_times(seen.display.lines) == [*recorded(6), "that is all"]


def test_a_question_shows_the_keys_of_its_answer(tmp_path: Path) -> None:
    with terminal(player_with(tmp_path, "print(f'said {input(\"a question? \")}')"), "1", "0.2", "hermes") as seen:
        seen.expect("a question?")
        seen.type("yes\n")
        assert seen.end() == 0
    assert seen.display.lines[:2] == ["a question? yes", "said yes"]


@pytest.mark.parametrize("agents", ["hermes", "one two"])
def test_ctrl_z_leaves_the_terminal_to_the_shell_and_fg_draws_the_frame_again(player: Path, agents: str) -> None:
    shell = "import os; os.environ['PS1'] = 'prompt '; os.execvp('sh', ['sh', '-i'])"
    with terminal("-c", shell, height=12) as seen:
        seen.expect("prompt")
        seen.type(f"{sys.executable} {player} 4 0.5 {agents}\n")
        seen.expect("output of s0")
        seen.type("\x1a")
        seen.expect("prompt", 2)
        assert not RUNNING.search("\n".join(seen.display.lines)), "\n".join(seen.display.lines)
        seen.type("fg\n")
        seen.expect("output of s3")
        seen.expect("that is all")
        seen.type("exit\n")
        seen.end()
    assert not RUNNING.search("\n".join(seen.display.lines)), "\n".join(seen.display.lines)
    assert "prompt fg" in seen.display.lines, "the keys were not shown"
    assert len([line for line in seen.display.lines if line.startswith("  ✓ ")]) == 4 * len(agents.split())


def test_the_test_terminal_notices_a_frame_that_stays() -> None:
    display = Display(20, 4)
    for at in range(6):
        display.feed(f"frame {at}\r\n" + "row\r\n" * 4 + "\x1b[5A")  # taller than the screen
    assert len([line for line in display.lines if line.startswith("frame")]) > 1
