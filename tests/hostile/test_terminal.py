"""``shell``, ``exec`` and other commands on a local host do not give the agent root's own terminal."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.foreground import supervised
from hostile.keyboard import keyboard, local_guest

PYTHON = "/usr/bin/python3"  # the agent's account may run it
AGENT = 10000
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run programs as the agent's account"),
    pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"needs {PYTHON}, to run the attacks"),
]
TIOCSTI = Path("/proc/sys/dev/tty/legacy_tiocsti")
BECOME = f"'setpriv', '--reuid', '{AGENT}', '--regid', '{AGENT}', '--clear-groups', '{PYTHON}'"
# Types a line into its terminal with TIOCSTI.
TYPES = """
import fcntl, sys, termios
for letter in sys.argv[1].encode():
    try:
        fcntl.ioctl(0, termios.TIOCSTI, bytes([letter]))
    except OSError:
        pass
"""
# Continues in the background and records all input of its terminal. Its first process ends when the second one listens.
LISTENS = """
import os, select, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGTTIN, signal.SIG_IGN)
listens, begun = os.pipe()
if os.fork():
    os.close(begun)
    os.read(listens, 1)
    sys.exit(0)
os.close(listens)
sources = [0]
try:
    sources.append(os.open("/dev/tty", os.O_RDONLY))
except OSError:
    pass
with open(sys.argv[1] + "/heard", "ab", 0) as heard:
    heard.write(b"listening ")
    os.close(begun)
    enough = False
    while not enough:
        enough = os.path.exists(sys.argv[1] + "/enough") or not os.path.exists(sys.argv[1])
        for source in select.select(sources, [], [], 0.05)[0]:
            try:
                data = os.read(source, 1000)
            except OSError:
                data = b""
            heard.write(data)
            if not data:
                sources.remove(source)
    heard.write(b" end")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Create a folder that the agent can write to."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o777)
    try:
        yield made
    finally:
        shutil.rmtree(made)


def program(folder: Path, text: str) -> Path:
    path = folder / "agents-own.py"
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.skipif(
    not TIOCSTI.exists() or TIOCSTI.read_text().strip() != "1", reason="this kernel does not allow TIOCSTI"
)
@pytest.mark.parametrize("terminal", [True, False])
def test_the_agent_cannot_type_into_roots_shell(folder: Path, tmp_path: Path, terminal: bool) -> None:
    canary = tmp_path / "only-root-could-write-this"
    typed = f"touch {canary}\\n"
    attack = program(folder, TYPES)
    with keyboard() as root:
        call = f"guest.attach([{BECOME}, '{attack}', '{typed}'], terminal={terminal})"
        root.type(local_guest(tmp_path, call))
        root.expect("ended with 0.")
        root.type("echo roots shell go''es on\n")
        root.expect("goes on")
    assert not canary.exists(), "a program of the agent typed a command into root's shell, which ran it"


@pytest.mark.parametrize("how", ["shell", "exec in a pipe", "run"])
def test_a_background_process_of_the_agent_cannot_read_what_root_types(folder: Path, tmp_path: Path, how: str) -> None:
    attack = program(folder, LISTENS)
    argv = f"[{BECOME}, '{attack}', '{folder}']"
    # Without open pipes, so that `run` does not wait for the process in the background.
    quiet = f"['sh', '-c', 'exec \"$@\" >/dev/null 2>&1', 'sh', *{argv}]"
    calls = {
        "shell": f"guest.attach({argv}, terminal=True)",
        "exec in a pipe": f"guest.attach({argv}, terminal=False)",
        "run": f"guest.run({quiet}).code",
    }
    with keyboard() as root:
        root.type(local_guest(tmp_path, calls[how]))
        root.expect("ended with 0.")
        for _ in range(20):
            root.type("my-secret-word\n")
            root.sees("nothing like this", 0.05)
        (folder / "enough").touch()
        end = time.monotonic() + 30
        while not (heard := (folder / "heard").read_text()).endswith(" end"):
            assert time.monotonic() < end, f"the attack did not run to its end: {heard}"
            time.sleep(0.02)
    assert heard.startswith("listening"), "the attack did not run"
    assert "my-secret-word" not in heard, f"a background process of the agent read what root typed: {heard}"


def test_a_program_of_the_agent_that_paddock_runs_cannot_write_to_roots_terminal(folder: Path, tmp_path: Path) -> None:
    attack = program(folder, "with open('/dev/tty', 'w') as screen:\n    screen.write('all checks passed')\n")
    with keyboard() as root:
        root.type(local_guest(tmp_path, f"guest.run([{BECOME}, '{attack}']).code"))
        root.expect("ended with ")
    assert "all checks passed" not in root.screen, "a program of the agent wrote to root's terminal"


@pytest.mark.parametrize("terminal", [True, False])
def test_the_agent_gets_no_descriptor_of_roots_terminal(folder: Path, tmp_path: Path, terminal: bool) -> None:
    attack = program(folder, "import os\nprint('held:', *(os.ttyname(n) for n in (0, 1, 2) if os.isatty(n)), 'end')\n")
    with keyboard() as root:
        root.type("echo root has $(tty) en''d\n")
        root.expect(" end")
        own = root.screen.split("root has ")[1].split()[0]
        root.type(local_guest(tmp_path, f"guest.attach([{BECOME}, '{attack}'], terminal={terminal})"))
        root.expect("ended with 0.")
    held = root.screen.split("held: ")[1].split("end")[0].split()
    assert own.startswith("/dev/pts/")
    assert own not in held, f"a program of the agent had root's terminal {own} open"


def test_an_agent_in_the_foreground_has_no_terminal(tmp_path: Path) -> None:
    program = tmp_path / "run.py"
    program.write_text(supervised(tmp_path / "agent", "echo all is well >/dev/tty; exit 3"))
    with keyboard() as root:
        root.type(f"{sys.executable} {program}\n")
        root.expect("ended with code 3")
    assert "all is well" not in root.screen, "`paddock run` gave the agent the user's terminal"
