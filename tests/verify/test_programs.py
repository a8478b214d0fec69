"""The programs of verify as they run on the machine: what they ask, in which order, and what they load for it."""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from paddock.base.process import Result
from paddock.channels.onboard import answer_of, framed, framed_payload, program_for, started
from paddock.channels.sent import on_demand
from paddock.onboard.agent import Agent as Deployed
from paddock.onboard.facts import beside as inside
from paddock.onboard.facts.main import Look
from paddock.onboard.systemd.look import Inspect
from paddock.verify.look import INSIDE as MODULE

INSIDE = on_demand(MODULE)
PYTHON = [sys.executable, "-I", "-S", "-c"]


class Agent(ThreadingHTTPServer):
    """A server in the place of the agent. It notes what it is asked."""

    health: object = {"status": "ok"}
    prompt_seconds = 0.3

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.asked: list[str] = []

    def request(self, path: str, **more: Any) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.server_address[1]}{path}"
        common = {"method": "GET", "headers": {}, "bearer": "", "login": False, "body": None, "seconds": 5}
        return {"kind": "request", "url": url, **common, **more}


class Handler(BaseHTTPRequestHandler):
    server: Agent

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/health")
            self.end_headers()
        else:
            self.answer(self.server.health)

    def do_POST(self) -> None:
        self.server.asked.append(self.path)
        time.sleep(self.server.prompt_seconds)
        self.server.asked.append("answered")
        self.answer({"said": "ok"})

    def answer(self, said: object) -> None:
        body = json.dumps(said).encode()
        self.send_response(200)
        if self.path != "/unsized":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@contextmanager
def served(agent: Agent) -> Iterator[Agent]:
    thread = threading.Thread(target=agent.serve_forever, daemon=True)
    thread.start()
    try:
        yield agent
    finally:
        agent.shutdown()
        thread.join()
        agent.server_close()


@pytest.fixture
def agent() -> Iterator[Agent]:
    with served(Agent()) as started:
        yield started


def answers(questions: list[dict[str, Any]]) -> list[Any]:
    done = subprocess.run([*PYTHON, INSIDE], input=json.dumps(questions).encode(), capture_output=True, check=True)
    return [each["found"] for each in json.loads(done.stdout)["answers"]]


# In place of the module that reports processes: it runs a program, which prints them.
SUPERVISOR = """
from paddock.onboard.agent import Agent
from paddock.onboard.program.frozen import frozen

@frozen
class Inspect:
    agent: Agent
    engine: str
    container: str

def inspected(asked):
    import json
    import subprocess

    printed = subprocess.run(json.loads(asked.container), stdout=subprocess.PIPE, check=True).stdout
    return {"processes": {"main": json.loads(printed)}, "dropped": []}


def units(agent):
    raise AssertionError("these tests observe nothing")
"""


def process(state: str, pid: int = 0) -> str:
    """Return a process as a supervisor in place of systemd prints it."""
    return json.dumps({"state": state, "pid": pid, "restarts": 0, "since": 1000.0})


def machine_facts(
    agent: Agent, folder: Path, *, supervisor: Sequence[str] | None = None, **more: Any
) -> dict[str, Any] | None:
    """Return the facts that the program on the machine answers with. One process is active, or a supervisor prints it.

    Without that, the agent was started in a terminal.
    """
    question = {
        "all": False,
        "only_running": False,
        "health": None,
        "processes": ["main"],
        "lease_file": f"{folder}/lease",
        "holder_file": f"{folder}/holder",
        "folders": [str(folder)],
        "ports": [],
        "account": "",
        "alone": True,
        "inside": {"argv": PYTHON, "program": INSIDE, "load": [], "questions": [agent.request("/health")]},
        **more,
    }
    (folder / "running").write_text("main 1 0 1000\n")
    deployed = Deployed("", "home_bee", (), str(folder), str(folder), str(folder), str(folder))
    look = Look(Inspect(deployed, "", json.dumps(supervisor)), question)
    modules = program_for(Look.__module__)
    if supervisor:
        data = zlib.compress(json.dumps({Inspect.__module__: SUPERVISOR}).encode())
        modules += b"M %d\n%s" % (len(data), data)
    asked = modules + framed(look) + framed_payload(b"")
    done = subprocess.run(started(sys.executable), input=asked, capture_output=True, check=True)
    answer = answer_of(Result((), done.returncode, done.stdout.decode(), done.stderr.decode(), 0), "here")
    assert answer.result.ok, answer.result.err
    return cast("dict[str, Any] | None", answer.value)


def awaited(agent: Agent, patience: float) -> dict[str, Any]:
    wanted = {"status": 200, "values": [["status", "ok"]]}
    return {**agent.request("/health"), "env_files": [], "patience": patience, "wanted": wanted}


def test_other_questions_give_way_to_the_prompt(agent: Agent) -> None:
    prompt = agent.request("/prompt", method="POST", body={"say": "ok"}, first=True)
    found = answers([agent.request("/health"), prompt, agent.request("/other")])
    assert [each["body"] for each in found] == [{"status": "ok"}, {"said": "ok"}, {"status": "ok"}]
    assert agent.asked[:2] == ["/prompt", "answered"]
    assert sorted(agent.asked[2:]) == ["/health", "/other"]


def test_other_questions_do_not_wait_for_a_slow_prompt(agent: Agent) -> None:
    agent.prompt_seconds = 6.5
    answers([agent.request("/prompt", method="POST", first=True, seconds=30), agent.request("/health")])
    assert agent.asked == ["/prompt", "/health", "answered"]


@pytest.mark.parametrize(
    ("path", "reply", "requests"),
    [
        ("/health", {"status": 200, "body": {"status": "ok"}}, 1),
        ("/unsized", {"status": 200, "body": {"status": "ok"}}, 2),
        ("/moved", {"status": 302, "body": ""}, 2),  # the redirect is not followed
    ],
)
def test_a_request_that_is_not_answered_in_a_simple_way_is_made_again(
    agent: Agent, path: str, reply: dict[str, Any], requests: int
) -> None:
    assert answers([agent.request(path)]) == [reply]
    assert agent.asked == [path] * requests
    gone = agent.request("/health", url="http://127.0.0.1:1/health")
    assert answers([gone]) == [{"refused": "http://127.0.0.1:1/health: [Errno 111] Connection refused"}]


def test_the_quick_questions_load_no_http_library(agent: Agent, tmp_path: Path) -> None:
    told = "import sys\nsys.stderr = open(sys.argv.pop(), 'w')\nimport atexit\n"
    told += "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n"
    questions = [agent.request("/health"), {"kind": "write", "folder": str(tmp_path)}]
    loaded = tmp_path / "loaded"
    subprocess.run([*PYTHON, told + INSIDE, str(loaded)], input=json.dumps(questions).encode(), check=True)
    modules = set(loaded.read_text().split())
    assert "paddock.onboard.facts.beside" in modules
    heavy = {"http.client", "urllib.request", "ssl", "subprocess", "tempfile", "sqlite3", "concurrent.futures"}
    assert not modules & {*heavy, "paddock.onboard.loopback"}
    assert [path.name for path in tmp_path.iterdir()] == ["loaded"]


def test_a_folder_that_cannot_be_written_to_is_told() -> None:
    assert answers([{"kind": "write", "folder": "/proc"}])[0]["refused"].startswith("/proc: ")


def test_the_agent_is_asked_as_soon_as_it_is_healthy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    late: list[Agent] = []

    def start() -> None:
        time.sleep(1)
        late.append(Agent(port))
        late[0].serve_forever()

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    asked = Agent()  # only for its questions
    asked.server_close()
    asked.server_address = ("127.0.0.1", port)
    found = machine_facts(asked, tmp_path, health=awaited(asked, 10))
    late[0].shutdown()
    thread.join()
    late[0].server_close()
    assert found
    assert found["health"] == {"status": 200, "body": {"status": "ok"}}
    assert found["inside"]["found"]["answers"][0]["found"]["status"] == 200
    assert late[0].asked == ["/health", "/health"]


def test_another_program_on_the_port_is_asked_for_its_health_only(agent: Agent, tmp_path: Path) -> None:
    agent.health = {"status": "another program"}
    found = machine_facts(agent, tmp_path, health=awaited(agent, 1))
    assert found == {"health": {"status": 200, "body": {"status": "another program"}}}
    assert 2 <= len(agent.asked) <= 6  # with a pause after each
    assert set(agent.asked) == {"/health"}


def test_an_agent_that_answers_before_it_is_healthy_is_waited_for(agent: Agent, tmp_path: Path) -> None:
    agent.health = {"status": "starting"}
    started = threading.Timer(1, lambda: setattr(agent, "health", {"status": "ok"}))
    started.start()
    found = machine_facts(agent, tmp_path, health=awaited(agent, 30))
    started.join()
    assert found
    assert found["health"] == {"status": 200, "body": {"status": "ok"}}
    assert found["inside"]["found"]["answers"][0]["found"]["status"] == 200


def test_an_agent_that_has_failed_is_not_waited_for(tmp_path: Path) -> None:
    asked = Agent()
    asked.server_close()
    start = time.monotonic()
    failed = ["echo", process("failed")]
    found = machine_facts(asked, tmp_path, health=awaited(asked, 60), supervisor=failed)
    assert found
    assert "Connection refused" in found["health"]["refused"]
    assert time.monotonic() - start < 30


def test_an_agent_that_does_not_run_is_not_asked(agent: Agent, tmp_path: Path) -> None:
    stopped = ["echo", process("inactive")]
    assert machine_facts(agent, tmp_path, only_running=True, supervisor=stopped) is None
    assert machine_facts(agent, tmp_path, only_running=True) is not None
    assert agent.asked == ["/health"]


def test_a_program_beside_the_agent_that_ignores_questions_is_ended_with_the_look(agent: Agent, tmp_path: Path) -> None:
    mark = tmp_path / "survived"
    asleep = f"import time; time.sleep(3); open({str(mark)!r}, 'w')"
    stopped = ["echo", process("inactive")]
    beside = {"argv": PYTHON, "program": asleep, "load": [], "questions": []}
    assert machine_facts(agent, tmp_path, only_running=True, supervisor=stopped, inside=beside) is None
    time.sleep(4)
    assert not mark.exists()


def test_a_program_that_came_before_the_container_ran_is_started_again(agent: Agent, tmp_path: Path) -> None:
    refused = tmp_path / "refused"
    refuse = f'test -e {refused} || {{ echo "the container is not running" >&2; touch {refused}; exit 1; }}; exec "$@"'
    beside = {"argv": ["sh", "-c", refuse, "sh", *PYTHON], "program": INSIDE, "load": [], "questions": []}
    later = ["sh", "-c", f"until test -e {refused}; do :; done; sleep 0.2; echo '{process('active', 1)}'"]
    found = machine_facts(agent, tmp_path, inside=beside, supervisor=later)
    assert found
    assert "answers" in found["inside"]["found"]


def test_a_program_beside_the_agent_that_cannot_be_started_is_told(agent: Agent, tmp_path: Path) -> None:
    beside = {"argv": ["/nonexistent/program"], "program": "", "load": [], "questions": []}
    found = machine_facts(agent, tmp_path, inside=beside)
    assert found
    assert "No such file" in found["inside"]["refused"]


def test_a_program_that_keeps_its_output_open_does_not_delay_a_look_that_is_given_up(
    agent: Agent, tmp_path: Path
) -> None:
    escaped = "import os, time\nif os.fork():\n    time.sleep(60)\nos.setsid()\ntime.sleep(20)"
    stopped = ["sh", "-c", f"sleep 1; echo '{process('inactive')}'"]
    beside = {"argv": PYTHON, "program": escaped, "load": [], "questions": []}
    start = time.monotonic()
    assert machine_facts(agent, tmp_path, only_running=True, supervisor=stopped, inside=beside) is None
    assert time.monotonic() - start < 15


def test_the_other_looks_begin_while_the_agent_still_keeps_silent(agent: Agent, tmp_path: Path) -> None:
    asked = str(tmp_path / "asked")
    silent = f"import json, sys, time; json.load(sys.stdin); open({asked!r}, 'w'); time.sleep(9); print('{{}}')"
    beside = {"argv": PYTHON, "program": silent, "load": [], "questions": []}
    every: dict[str, Any] = {
        "etc": str(tmp_path),
        "files": [],
        "tree": None,
        "account": "",
        "env_files": [],
        "own_machine": False,
    }
    every |= {"search": [], "skip": [], "logs": ["touch", f"{tmp_path}/looked"]}
    found = machine_facts(agent, tmp_path, all=True, inside=beside, **every)
    assert found
    assert found["inside"]["found"] == {}
    waited = (tmp_path / "looked").stat().st_mtime - (tmp_path / "asked").stat().st_mtime
    assert 4 < waited < 9


def test_a_connection_that_the_kernel_makes_is_reported(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few kernels have SMC, so plain sockets stand for its two kinds here; without them there is an error number."""
    port = agent.server_address[1]
    endpoints = {"kind": "connect", "kernel": True, "endpoints": [["127.0.0.1", port]]}
    [found] = answers([endpoints])
    assert set(found["content"][0]) == {"host", "port", "protocol 256", "family 43"}
    plain = socket.socket

    def standing_in(family: int, kind: int, protocol: int = 0, fileno: int | None = None) -> socket.socket:
        return plain(2 if family == 43 else family, kind, 0 if protocol == 256 else protocol, fileno)

    monkeypatch.setattr("paddock.onboard.facts.beside.socket.socket", standing_in)
    reached = inside.kernel_connection(["127.0.0.1", port])
    assert reached == {"host": "127.0.0.1", "port": port, "protocol 256": None, "family 43": None}
    refused = inside.kernel_connection(["127.0.0.1", 1])
    assert refused["protocol 256"] == refused["family 43"] == errno.ECONNREFUSED
