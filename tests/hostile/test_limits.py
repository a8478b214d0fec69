"""Output, answers and files of an agent of any size take a limited amount of memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hostile.foreground import supervised
from paddock.base.process import Result
from paddock.channels.onboard import answer_of, sent
from paddock.channels.sent import program
from paddock.onboard.agent import Agent
from paddock.onboard.facts.main import Look
from paddock.onboard.systemd.look import Inspect
from paddock.verify.look import INSIDE

LOOPBACK = "paddock.onboard.loopback"
MUCH = 200_000_000
MOST = 100  # MiB of memory that reading them may take
FLOOD = ["sh", "-c", f"head -c {MUCH} /dev/zero | tr '\\0' x"]
MEASURE = """
import resource, sys
def used():
    # Not ru_maxrss, which includes the memory of the parent process before exec.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) // 1024
# Limits the memory, so that a failing test does not exhaust this machine.
resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))
"""


def measured(program: str, *, stdin: bytes = b"", seconds: float = 100) -> tuple[str, int]:
    """Run a Python program; return its stdout, and by how many MiB it grew since its line ``before = used()``."""
    text = MEASURE + program + "\nprint('grew by', used() - before, file=sys.stderr)\n"
    done = subprocess.run([sys.executable, "-c", text], input=stdin, capture_output=True, timeout=seconds)
    err = done.stderr.decode()
    assert "MemoryError" not in err, "1.5 GiB of memory were not enough"
    assert "grew by" in err, err[-2000:]
    return done.stdout.decode(), int(err.split("grew by")[1].split()[0])


def test_large_output_of_a_program_is_cut_and_reported_as_cut() -> None:
    said, grew = measured(
        "from paddock.channels import expect\nfrom paddock.channels.local import LocalGuest\n"
        "from paddock.base.errors import PaddockError\n"
        "from paddock.base.process import CommandFailed, run\nbefore = used()\n"
        f"result = run({FLOOD!r})\nprint(len(result.out), 'cut here' in result.out)\n"
        f"complained = run(['sh', '-c', {FLOOD[2] + ' >&2; echo >&2; echo the last words >&2; exit 3'!r}])\n"
        "print(CommandFailed('flooding', complained).message[-2000:])\n"
        "try:\n"
        f"    expect(LocalGuest(), 'flooding', {FLOOD!r})\n"
        "    print('taken as it is')\n"
        "except PaddockError as error:\n    print(error.message)\n"
    )
    assert grew < MOST, f"{MUCH >> 20} MiB of output took {grew} MiB of memory"
    assert int(said.split()[0]) < 10 << 20
    assert said.split()[1] == "True"
    assert "the last words" in said
    assert "flooding on this machine printed too much: the output was cut" in said


def test_a_program_that_prints_for_ever_is_killed_before_its_deadline() -> None:
    start = time.monotonic()
    said, grew = measured(
        "from paddock.base.errors import PaddockError\nfrom paddock.base.process import run\nbefore = used()\n"
        "try:\n    run(['yes', 'x' * 10000], deadline=60)\n"
        "except (PaddockError, MemoryError) as error:\n    print(type(error).__name__, error)\n"
    )
    assert grew < MOST, f"a program that printed for ever took {grew} MiB of memory ({said.strip()})"
    assert time.monotonic() - start < 50
    assert "and was killed" in said


def test_paddock_logs_cuts_a_very_long_line(tmp_path: Path) -> None:
    (tmp_path / "paddock.yaml").write_text(
        "project: home\nplaces: {here: {host: {}}}\n"
        "agents: {web: {kind: service, place: here, runtime: process, command: [sleep, inf]}}\n"
    )
    log = tmp_path / "xdg_data_home/paddock/home_web/etc/log"
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        for _ in range(50):
            file.write(b"x" * 1_000_000)
        file.write(b"\nthe end\n")
    command = [sys.executable, "-m", "paddock", "logs", "web"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        out = running.stdout.read(20_000_000)
        running.stdout.close()
    assert len(out) < 1 << 20, "a very long line was printed whole"
    assert b"more bytes of this line were cut" in out
    assert out.endswith(b"\nthe end\n")


@pytest.fixture
def server() -> Iterator[str]:
    """Serve answers of 200 MB."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404 if "missing" in self.path else 200)
            if "packed" in self.path:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            # The client may close the connection, and should.
            try:
                if "packed" in self.path:
                    self.wfile.write(gzip.compress(bytes(MUCH), 1))
                else:
                    for _ in range(MUCH // 1_000_000):
                        self.wfile.write(b"y" * 1_000_000)
            except OSError:
                pass

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Print no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{found.server_address[1]}"
        found.shutdown()
        thread.join()


def question(url: str) -> dict[str, Any]:
    return {
        "kind": "request",
        "url": url,
        "method": "GET",
        "headers": {},
        "bearer": "",
        "body": None,
        "seconds": 60,
        "patience": 0,
    }


def on_the_machine(text: str, stdin: Any) -> tuple[Any, int]:
    """Run a program that Paddock runs on the machine. Return its parsed output, and by how many MiB it grew."""
    said, grew = measured(
        f"before = used()\nexec(compile({text!r}, 'program', 'exec'), {{'__name__': '__main__'}})\n",
        stdin=json.dumps(stdin).encode(),
    )
    return json.loads(said), grew


@pytest.mark.parametrize("path", ["/", "/missing"])
def test_an_answer_of_the_agent_to_a_probe_is_cut(server: str, path: str) -> None:
    asked = "import json, sys\nfrom paddock.onboard.request import AskAgent\n"
    asked += "print(json.dumps(AskAgent(json.load(sys.stdin)).perform(None)))\n"
    reply, grew = on_the_machine(asked, {**question(server + path), "env_files": []})
    assert grew < MOST, f"an answer of {MUCH >> 20} MiB took {grew} MiB of memory"
    assert "and was cut" in reply["refused"]


def test_answers_files_and_output_read_by_verify_are_cut(server: str, tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(MUCH)
    asked = [
        question(server),
        {"kind": "file", "path": str(large)},
        {"kind": "attempt", "argv": [*FLOOD[:2], f"{FLOOD[2]}; echo last; exit 3"], "seconds": 60},
    ]
    found, grew = on_the_machine(program(INSIDE), asked)
    assert grew < MOST, f"an answer, a file and an output of {MUCH >> 20} MiB each took {grew} MiB of memory"
    answer, file_, attempt = (each["found"] for each in found["answers"])
    assert "and was cut" in answer["refused"]
    assert "and was cut" in file_["refused"]
    assert (attempt["content"]["code"], attempt["content"]["out"][-6:]) == (3, "xlast\n")


def test_logs_files_and_a_flood_instead_of_an_answer_are_cut(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.env"
    secrets.write_text("KEY=canary-value-19\n")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MUCH)
    log = ["sh", "-c", f"echo canary-value-19; {FLOOD[2]}"]
    asked = {
        "all": True,
        "processes": [],
        "lease_file": f"{tmp_path}/lease",
        "holder_file": f"{tmp_path}/holder",
        "folders": [str(tmp_path)],
        "etc": str(tmp_path),
        "files": ["large"],
        "tree": None,
        "account": "",
        "ports": [],
        "alone": True,
        "env_files": [str(secrets)],
        "own_machine": True,
        "skip": [],
        "search": [],
        "logs": log,
        "health": None,
        "inside": {"argv": [*FLOOD], "program": "", "load": [], "questions": []},
    }
    agent = Agent("", "home_bee", (), str(tmp_path), f"{tmp_path}/store", f"{tmp_path}/link", f"{tmp_path}/state")
    argv, stdin = sent(Look(Inspect(agent), asked))
    ran = f"try:\n    exec({argv[-1]!r}, {{'__name__': '__main__'}})\nexcept SystemExit:\n    pass\n"
    said, grew = measured(f"before = used()\n{ran}", stdin=stdin)
    found = answer_of(Result((), 0, said, "", 0.0), "the machine").value
    assert grew < MOST, f"a log, a file and an answer of {MUCH >> 20} MiB each took {grew} MiB of memory"
    assert "and was cut off" in found["inside"]["found"]["refused"]
    assert found["leaks"]["found"]["found"] == {"KEY": ["the log"]}
    assert found["leaks"]["found"]["cut_short"] is True


def test_the_output_of_a_program_that_the_machine_runs_is_cut() -> None:
    """The agent writes its own log, and the files of its container, which an engine lists."""
    said, grew = measured(
        "from paddock.onboard.program.programs import run\nbefore = used()\n"
        f"done = run({[*FLOOD[:2], f'{FLOOD[2]}; {FLOOD[2]} >&2; exit 3']!r})\n"
        "print(done.code, len(done.out), len(done.err))\n"
        "print(run(['yes'], seconds=2).err)"
    )
    assert grew < MOST, f"an output of {MUCH >> 20} MiB took {grew} MiB of memory"
    assert said == f"3 {16 << 20} {16 << 20}\nyes did not end within 2 s\n"


@pytest.mark.parametrize("path", ["/", "/packed"])
def test_an_answer_of_the_proxmox_api_is_limited_in_size(server: str, path: str) -> None:
    said, grew = measured(
        "import ssl\nfrom paddock.places.proxmox.api.client import Client\nfrom paddock.base.secret import Secret\n"
        "from paddock.base.errors import PaddockError\n"
        f"client = Client({server!r}, 'pve', Secret('root@pam!t=1'), ssl.create_default_context())\nbefore = used()\n"
        f"try:\n    client.get({path!r})\nexcept PaddockError as error:\n    print(error.message)\n"
    )
    assert grew < MOST, f"an answer of {MUCH >> 20} MiB took {grew} MiB of memory"
    assert ("compresses its responses" if path == "/packed" else "is over 32 MiB") in said


def test_the_output_of_a_secret_command_is_limited_in_size() -> None:
    said, grew = measured(
        "from paddock.base.errors import PaddockError\n"
        "from paddock.base.process import run_for_secret\nbefore = used()\n"
        f"try:\n    run_for_secret({FLOOD!r})\nexcept PaddockError as error:\n    print(error.message)\n"
    )
    assert grew < MOST, f"a secret of {MUCH >> 20} MiB took {grew} MiB of memory"
    assert "which is too large for a secret" in said


def test_the_error_shows_the_end_of_a_log_of_any_size(tmp_path: Path) -> None:
    program = supervised(tmp_path / "agent", "echo the last words; exit 3")
    with (tmp_path / "agent/log").open("wb") as log:
        log.truncate(MUCH)
    said, grew = measured(f"before = used()\n{program}")
    assert grew < MOST, f"the end of a log of {MUCH >> 20} MiB took {grew} MiB of memory"
    assert "the last words" in said
