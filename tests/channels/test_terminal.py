"""An interactive program on this machine gets a pseudo-terminal that behaves like the user's own terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hostile.keyboard import Keyboard, keyboard, local_guest


def attached(person: Keyboard, folder: Path, script: str, *, terminal: bool = True) -> None:
    person.type(local_guest(folder, f"guest.attach(['sh', '-c', {script!r}], terminal={terminal})"))


def test_attach_returns_the_exit_code_of_the_program(tmp_path: Path) -> None:
    with keyboard() as person:
        attached(person, tmp_path, "exit 7")
        person.expect("ended with 7.")
        attached(person, tmp_path, "kill -9 $$")
        person.expect("ended with 137.")
        attached(person, tmp_path, "exit 8", terminal=False)
        person.expect("ended with 8.")


def test_the_pseudo_terminal_follows_the_size_of_the_users_terminal(tmp_path: Path) -> None:
    with keyboard() as person:
        person.resize(33, 101)
        attached(person, tmp_path, "trap 'stty size; exit 0' WINCH; stty size; while :; do sleep 0.1; done")
        person.expect("33 101")
        person.resize(44, 99)
        person.expect("44 99")
        person.expect("ended with 0.")


def test_all_keys_reach_the_program_including_ctrl_c_and_ctrl_d(tmp_path: Path) -> None:
    with keyboard() as person:
        attached(person, tmp_path, "trap 'echo interr''upted' INT; echo be''gun; cat; echo at an en''d; exit 3")
        person.expect("begun")
        person.type("some words\n")
        person.expect("some words")
        person.type("\x03")  # Ctrl-C ends cat, but neither Paddock nor the shell, which traps it
        person.expect("interrupted")
        person.expect("at an end")
        person.expect("ended with 3.")
        attached(person, tmp_path, "echo for Ctrl''-D; cat; echo no mo''re")
        person.expect("for Ctrl-D")
        person.type("\x04")
        person.expect("no more")


def test_a_long_paste_arrives_whole(tmp_path: Path) -> None:
    with keyboard() as person:
        attached(person, tmp_path, "stty raw -echo; echo be''gun; head -c 200000 | wc -c")
        person.expect("begun")
        for _ in range(200):
            person.type("x" * 1000)
            person.sees("never", 0)
        person.expect("200000")
        person.expect("ended with 0.")


def test_the_terminal_settings_are_restored_when_paddock_is_terminated(tmp_path: Path) -> None:
    with keyboard() as person:
        person.type("before=$(stty -g); echo no''ted\n")
        person.expect("noted")
        program = local_guest(
            tmp_path, "guest.attach(['sh', '-c', 'echo $PPID is its number; sleep 60'], terminal=True)"
        )
        text = (tmp_path / "program.py").read_text()
        handler = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        (tmp_path / "program.py").write_text(text.replace("guest = ", handler + "guest = "))
        person.type(program)
        person.expect(" is its number")
        paddock = int(person.screen.split(" is its number")[0].split()[-1])
        os.kill(paddock, signal.SIGTERM)
        for _ in range(50):  # input typed before Paddock has ended is discarded
            person.type('[ "$before" = "$(stty -g)" ] && echo as it w""as\n')
            if person.sees("as it was", 0.2):
                break
        person.expect("as it was")


def test_ctrl_c_ends_a_program_without_a_terminal(tmp_path: Path) -> None:
    with keyboard() as person:
        attached(person, tmp_path, "echo be''gun; exec sleep 60", terminal=False)
        person.expect("begun")
        person.type("\x03")
        person.expect("ended with 130.", seconds=5)


def test_typed_input_reaches_a_program_whose_output_is_a_file(tmp_path: Path) -> None:
    with keyboard() as person:
        line = local_guest(tmp_path, "guest.attach(['cat'], terminal=False)").strip()
        person.type(f"{line} >{tmp_path}/out\n")
        time.sleep(0.5)
        person.type("some words\n\x04")
        person.type("echo do''ne\n")
        person.expect("done")
    assert (tmp_path / "out").read_text() == "some words\nended with 0.\n"


def test_pipes_are_inherited_when_there_is_no_terminal() -> None:
    program = "from paddock.channels.local import LocalGuest\nLocalGuest().attach(['cat'], terminal=False)"
    result = subprocess.run([sys.executable, "-c", program], input=b"a\0b" * 100000, capture_output=True, timeout=60)
    assert result.stdout == b"a\0b" * 100000
