"""Secrets go through every verb and appear on no channel; a leak that is planted on a channel is found there."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
import zstandard

from cli.conftest import Paddock
from cli.conftest import node as node
from levels import LEVEL
from paddock.places.proxmox.api.errors import BadParameters
from places.node import BASE, DEPLOYER, Node
from security.canaries import Canaries
from security.channels import PERSON, Archives, Channel, Files, Options, Processes, Told, open_to_others, table, watched
from security.sources import FILES, NOTIFY, OWN, RESTIC, SECRETS, write_sources
from security.verbs import verbs_of_a_life, verbs_of_the_end

Channels = dict[str, Channel]
BEE: Final = "import time; time.sleep({})  # the bee"
OF_BEE: Final = "# the bee"


class Shape:
    """A deployed agent, and everything that left Paddock meanwhile."""

    def __init__(self, name: str, tmp_path: Path, paddock: Paddock, canaries: Canaries) -> None:
        self.name, self.tmp_path, self.canaries = name, tmp_path, canaries
        self._paddock = paddock
        # `exec` gives a program the agent's environment, and a person what it prints.
        self.out = Told("stdout", allowed=lambda where: OWN if where.endswith("exec bee -- env") else frozenset())
        self.err = Told("stderr")
        self.started = Told("started processes")
        self.arguments = Processes("arguments", "cmdline")
        self.ended: dict[str, int] = {}  # exit codes by verb
        journals = tmp_path / os.environ["XDG_STATE_HOME"] / "paddock"
        self.channels: Channels = {
            each.name: each for each in (self.out, self.err, Files("journal", [journals]), self.started, self.arguments)
        }

    def add(self, *channels: Channel) -> None:
        self.channels |= {each.name: each for each in channels}

    def run(self, *words: str) -> int:
        said = self._paddock(*words, stdin="new-value\n")
        self.out.add(" ".join(words), said.out)
        self.err.add(" ".join(words), said.err)
        self.ended[" ".join(words)] = said.code
        return said.code

    def hits(self) -> set[tuple[str, str, str]]:
        return {(name, *hit) for name, channel in self.channels.items() for hit in channel.find(self.canaries)}


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Record the arguments of every process that this process starts."""
    told = Told("started processes")
    start = subprocess.Popen.__init__

    def record(self: Any, args: Any, *more: Any, **options: Any) -> None:
        told.add(str(args)[:200], str(args))
        start(self, args, *more, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", record)
    return told


@pytest.fixture
def hook() -> Iterator[tuple[str, Told]]:
    """A server that keeps the notices it gets."""
    notices = Told("notices")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            notices.add("notice", self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", notices
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paddock: Paddock, programs: Told, hook: tuple[str, Told]
) -> Shape:
    """An agent in processes of this machine, and another one."""
    folder = tmp_path / "work"
    folder.mkdir(mode=0o700)
    monkeypatch.chdir(folder)
    url, notices = hook
    canaries = write_sources(folder, tmp_path / "bin", monkeypatch, os.environ["PATH"], url)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    common = {"kind": "service", "place": "here", "runtime": "process"}
    bee = {**common, "command": [sys.executable, "-c", BEE.format(600)], "secrets": SECRETS, "environment_files": FILES}
    other = {**common, "command": ["sleep", "inf"], "secrets": {"O": {"env": "CANARY_OTHER"}}}
    file = {
        "project": "home",
        "places": {"here": {"host": {}}},
        "notify": NOTIFY,
        "agents": {
            "bee": {**bee, "backup": {"to": "./backups"}},
            # Each start of restic takes half a second of computing, to derive its key.
            "other": {**other, **({"backup": {"to": {"restic": RESTIC}}} if LEVEL == "all" else {})},
        },
    }
    (folder / "paddock.yaml").write_text(json.dumps(file))
    assert paddock("approve", "--yes").code == 0
    shape = Shape("process", tmp_path, paddock, canaries)
    data = tmp_path / "xdg_data_home"
    shape.started.told = programs.told

    def own(process: str) -> frozenset[str]:
        """What may be in the environment of a process: its own secrets, or everything if it is the person's."""
        if OF_BEE in process:
            return OWN
        return frozenset(canaries.values if PERSON in process else ())

    shape.add(
        notices,
        Files("bundle", [data], lambda path: path.name not in ("secrets.env", "generated.env")),
        Files("open to others", [tmp_path], lambda path: open_to_others(path)),
        Archives("backups", [folder / "backups", folder / "repository"]),
        Processes("environments", "environ", allowed=own),
    )
    return shape


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paddock: Paddock, node: Node, programs: Told) -> Shape:
    """An agent on a simulated node, with a template."""
    canaries = write_sources(tmp_path, tmp_path / "bin", monkeypatch, os.environ["PATH"])
    canaries.values["token"] = node.world.access.tokens[DEPLOYER].secret
    monkeypatch.setenv("PVE_TOKEN", f"{DEPLOYER}={canaries['token']}")
    box = {"url": "https://node:8006", "node": "pve", "token": {"env": "PVE_TOKEN"}, "storage": "local-lvm"}
    box |= {"base": BASE, "ssh": {"key": "id"}}
    node.machines.home = tmp_path / "state/home"
    node.machines.home.mkdir(parents=True)
    (node.machines.home / "note").write_text("the owner likes tea\n")
    agent: dict[str, Any] = {"kind": "service", "place": "box", "command": ["/bin/true"], "secrets": SECRETS}
    agent |= {"environment_files": FILES, "backup": {"to": "./backups"}}
    file = {"project": "home", "notify": NOTIFY, "places": {"box": {"proxmox": box}}, "agents": {"bee": agent}}
    (tmp_path / "paddock.yaml").write_text(json.dumps(file))
    assert paddock("approve", "--yes").code == 0
    shape = Shape("node, simulated", tmp_path, paddock, canaries)
    shape.started.told = programs.told
    containers: dict[int, dict[str, Any]] = {}  # with those that are gone

    def every_container() -> dict[int, dict[str, Any]]:
        containers.update({vmid: node.config(vmid) for vmid in node.vmids})
        return containers

    sent = Told("requests")
    handle = node.handle_request

    def noted(request: Any) -> Any:
        sent.add(f"{request.method} {request.url.path}", f"{request.url} ".encode() + request.read())
        answer = handle(request)
        every_container()  # also those that are gone at the end
        return answer

    monkeypatch.setattr(node, "handle_request", noted)
    shape.add(
        sent,
        Options("notes", "description", every_container),
        Options("tags", "tags", every_container),
        Options(
            "other options", "all", lambda: {vmid: {"all": str(config)} for vmid, config in every_container().items()}
        ),
        Archives("backups", [tmp_path / "backups"]),
    )
    return shape


def run_in_front(shape: Shape) -> None:
    """Run the agent with `paddock run` and enter it, while the processes of this machine are watched."""
    environments = shape.channels["environments"]
    assert isinstance(environments, Processes)
    with watched(shape.arguments, environments, pause=0.05):
        command = [sys.executable, "-m", "paddock", "run", "bee"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert running.stdout
            for line in running.stdout:
                shape.out.add("run", line)
                if "runs as process" in line:
                    break
            time.sleep(0.3)
            shape.run("exec", "bee", "--", sys.executable, "-c", BEE.format(0.3))
        finally:
            running.terminate()
            shape.out.add("run", running.communicate()[0])
    commands = "\n".join(where for where, _ in environments.texts())
    assert BEE.format(600) in commands, "the agent was not seen"
    assert BEE.format(0.3) in commands, "the program of `exec` was not seen"


def live(shape: Shape, ways: tuple[bool, ...], show_table: Callable[[str], None]) -> None:
    """Run every verb, and look at every channel before and after the agent is removed."""
    for json_too in ways:
        for words in verbs_of_a_life(json=json_too):
            # It searches the disk of this machine for seconds. tests/live/test_verify.py has its output by default.
            if LEVEL == "all" or shape.name != "process" or "verify" not in words:
                shape.run(*words)
    shape.run("schedule", "run", "--set", "agents.bee.backup.to=/dev/null/nowhere")
    assert shape.hits() == set()
    show_table(table({shape.name: shape.channels}, shape.canaries))
    assert [name for name, channel in shape.channels.items() if not any(channel.texts())] == []
    for words in verbs_of_the_end():
        assert shape.run(*words) == 0, shape.err.told[-1]
    assert shape.hits() == set()


# The quick and the default run try one half of the ways here and the other half on the node.
def ways(*, here: bool) -> tuple[bool, ...]:
    return (False, True) if LEVEL == "all" else (not here,)


def test_no_verb_of_an_agent_on_this_machine_leaks_a_secret(here: Shape, show_table: Callable[[str], None]) -> None:
    assert here.run("up") == 0
    run_in_front(here)
    live(here, ways(here=True), show_table)


def test_no_verb_of_an_agent_on_a_node_leaks_a_secret(there: Shape, show_table: Callable[[str], None]) -> None:
    with watched(there.arguments, pause=0.2):
        live(there, ways(here=False), show_table)


# A leak for each channel. Each has another encoding.


def in_base64(value: str) -> str:
    return base64.b64encode(f"key={value}&".encode()).decode()


def sleeping(value: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", BEE.format(600), value], env=environment, stdout=subprocess.DEVNULL)


def plant_in_processes(shape: Shape, value: str) -> None:
    arguments, environments = shape.arguments, shape.channels.get("environments")
    process = sleeping(in_base64(value) if environments is None else "", LEAK=value)
    argument = sleeping(in_base64(value))
    try:
        time.sleep(0.3)  # until both have become python
        for channel in filter(None, (arguments, environments)):
            assert isinstance(channel, Processes)
            channel.look()
    finally:
        for each in (process, argument):
            each.kill()
            each.wait()


def plant_file(shape: Shape, channel: str, name: str, data: bytes, mode: int = 0o600) -> None:
    files = shape.channels[channel]
    assert isinstance(files, Files)
    top = next(iter(files.tops))
    top.mkdir(parents=True, exist_ok=True)
    (top / name).write_bytes(data)
    (top / name).chmod(mode)


def with_refusal(ask: Callable[[], object]) -> None:
    with pytest.raises(BadParameters):
        ask()


def plants(shape: Shape, node: Node | None) -> dict[str, Callable[[str], object]]:
    """Return how to leak a value on each channel."""
    packed = zstandard.ZstdCompressor().compress

    def option(key: str) -> Callable[[str], object]:
        assert node
        return lambda value: node.put(node.vmids[0], **{key: quote(value, safe="")})

    common: dict[str, Callable[[str], object]] = {
        "stdout": lambda _: shape.run("secrets", "get", "s"),  # the one verb that has to print a secret
        "stderr": lambda value: shape.run("check", "-f", f"{quote(value, safe='')}.yaml"),
        "journal": lambda value: plant_file(shape, "journal", "x.jsonl", json.dumps({"said": value}).encode()),
        "started processes": lambda value: subprocess.run(["true", in_base64(value)], check=True),
        "arguments": lambda value: plant_in_processes(shape, value),
        "backups": lambda value: plant_file(shape, "backups", "x.tar.zst", packed(f"a file\0{value}".encode())),
    }
    if node is None:
        return common | {
            "notices": lambda value: httpx.post(os.environ["CANARY_NOTIFY"], json={"why": value}),
            "bundle": lambda value: plant_file(shape, "bundle", "unit", in_base64(value).encode()),
            "open to others": lambda value: plant_file(shape, "open to others", "x", value.encode(), 0o644),
            "environments": lambda value: plant_in_processes(shape, value),
        }
    return common | {
        "requests": lambda value: with_refusal(lambda: node.client().get("/version", {"x": value})),
        "notes": option("description"),
        "tags": option("tags"),
        "other options": option("hostname"),
    }


# Where leaks of other channels pass too, the value is another one.
KINDS: Final = {"stdout": "stored", "other options": "s3", "environments": "restic", "started processes": "other"}


def check_plants(shape: Shape, node: Node | None) -> None:
    planted = plants(shape, node)
    assert planted.keys() == shape.channels.keys(), "every channel has a leak of its own"
    for name, plant in planted.items():
        kind, channel = KINDS.get(name, "notify"), shape.channels[name]
        assert kind not in {found for found, _ in channel.find(shape.canaries)}, name
        plant(shape.canaries[kind])
        assert kind in {found for found, _ in channel.find(shape.canaries)}, name


def test_a_leak_on_each_channel_of_this_machine_is_found(here: Shape) -> None:
    check_plants(here, None)


def test_a_leak_on_each_channel_of_a_node_is_found(there: Shape, node: Node) -> None:
    assert there.run("up") == 0
    check_plants(there, node)


def test_an_agent_that_gets_the_environment_of_the_person_is_found(
    here: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent has its own secrets in its environment, and a scan must tell them from the person's."""
    environments = here.channels["environments"]
    assert isinstance(environments, Processes)
    process = sleeping("", **os.environ)
    try:
        time.sleep(0.3)
        environments.look()
    finally:
        process.kill()
        process.wait()
    assert {kind for kind, _ in environments.find(here.canaries)} == {"notify", "s3", "other", "identity"}
