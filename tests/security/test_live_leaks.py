"""Canaries through the verbs of real agents on a node: Hermes in a machine, and a service in Docker in a machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from levels import slow_proof
from live.images import base_root
from live.manual import api_client
from live.node import Node
from live.node_root import root
from security.canaries import Canaries
from security.channels import PERSON, Archives, Channel, Disks, Files, Grep, Options, Processes, Told, table, watched
from security.sources import FILES, NOTIFY, OWN, SECRETS, write_sources

pytestmark = [pytest.mark.live, slow_proof]

NAME: Final = "canary"
ROOT_UID, AGENT_UID = 100000, 110000  # on this machine: the uids in an LXC container, shifted
ETC: Final = f"/etc/paddock/leaks_{NAME}"
# Everything but kernel files. What belongs to Debian's packages is searched too.
ROOTS: Final = ("/etc", "/home", "/opt", "/root", "/run", "/srv", "/tmp", "/usr/local", "/var")
LIFE: Final = (
    "approve --yes",
    "check",
    "plan",
    "up",
    "up",
    "backup make",
    "verify",
    "status --json",
    "outputs",
    "doctor",
    f"logs {NAME}",
    f"exec {NAME} -- true",
    "backup list",
    f"backup check {NAME}",
    f"restart {NAME}",
    "template list",
    "template refresh",
    "cycle",
    f"restore {NAME} --yes",
    "timings",
)
# Beside the agent's own secrets: what Hermes writes into its state, and what the machine has generated.
OF_THE_AGENT: Final = OWN | {"auth", "generated"}


class LiveShape:
    """An agent on a node with real containers, and everything that left Paddock meanwhile."""

    def __init__(self, name: str, node: Node, folder: Path, canaries: Canaries, agent: dict[str, Any]) -> None:
        self.name, self.node, self.folder, self.canaries = name, node, folder, canaries
        names = [each for each in os.environ if each.startswith("CANARY_")]
        mine = {each: os.environ[each] for each in (*names, "PADDOCK_AGE_KEY", "PATH")}
        self._environment = {**node.stage.environment, **mine}
        place = node.file()["places"]["box"]["proxmox"]
        place["ssh"]["key"] = str(node.stage.folder / "id_ed25519")
        common = {"place": "box", "environment_files": FILES, "backup": {"to": "./backups"}}
        agent = {**common, **agent, "secrets": {**SECRETS, **agent.get("secrets", {})}}
        tree = {
            "project": "leaks",
            "notify": NOTIFY,
            "places": {"box": {"proxmox": {**place, "ca": str(node.stage.folder / place["ca"])}}},
            "agents": {NAME: agent},
        }
        node.write(str(folder / "paddock.yaml"), tree)
        self.out, self.err = Told("stdout"), Told("stderr")
        self.arguments = Processes("arguments", "cmdline")
        self.environments = Processes("environments", "environ", allowed=self._own)
        box = node.stage.folder / "sandbox"
        root = api_client(node)
        self._all: dict[int, dict[str, Any]] = {}

        def containers() -> dict[int, dict[str, Any]]:
            numbers = [int(row["vmid"]) for row in root.get("/nodes/pve/lxc")]
            self._all |= {number: root.get(f"/nodes/pve/lxc/{number}/config") for number in numbers}
            return self._all

        self.channels: dict[str, Channel] = {
            each.name: each
            for each in (
                *(self.out, self.err, self.arguments, self.environments),
                Files("journal", [node.journals]),
                Files("requests", [box], lambda path: path.name in ("access.log", "tasks.jsonl")),
                Options("notes", "description", containers),
                Options("tags", "tags", containers),
                Files("other options", [box / "pve/nodes"]),
                Archives("backups", [folder / "backups"], allowed=lambda _: frozenset({"auth"})),
                Disks("template", lambda: (box / "volumes").rglob("base-*.img")),
                Grep("open to others", self._as_nobody, ROOTS),
                Grep("bundle", self._as_root, [f"{ETC}/"], allowed=_entitled),
            )
        }

    def _own(self, process: str) -> frozenset[str]:
        # In a container of an engine, root starts the agent with its secrets.
        of_root = self.name == "Docker" and process.startswith(f"uid {ROOT_UID} ")
        if of_root or process.startswith(f"uid {AGENT_UID} "):
            return OF_THE_AGENT
        return frozenset(self.canaries.values if PERSON in process else ())

    def run(self, words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "paddock", *words.split()],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.out.add(words, done.stdout)
        self.err.add(words, done.stderr)
        assert done.returncode == 0, (words, done.stdout, done.stderr)

    @property
    def address(self) -> str:
        root = api_client(self.node)
        number = next(row["vmid"] for row in root.get("/nodes/pve/lxc") if row.get("name") == NAME)
        found = root.get(f"/nodes/pve/lxc/{number}/interfaces")
        return next(str(each["inet"]).partition("/")[0] for each in found if each["name"] == "eth0")

    def _as_root(self, arguments: list[str], patterns: bytes) -> bytes:
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        key = ["-i", str(self.node.stage.folder / "id_ed25519"), f"root@{self.address}"]
        command = ["ssh", *options, *key, *arguments]
        done = subprocess.run(command, input=patterns, capture_output=True, timeout=240)
        assert done.returncode in (0, 1, 2), done.stderr  # 2: some files could not be read
        return done.stdout

    def _as_nobody(self, arguments: list[str], patterns: bytes) -> bytes:
        nobody = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
        return self._as_root([*nobody, *arguments], patterns)

    def machine(self, script: str) -> str:
        return self.node.shell(self.address, script)

    def hits(self) -> set[tuple[str, str, str]]:
        return {(name, *hit) for name, channel in self.channels.items() for hit in channel.find(self.canaries)}

    def listening(self) -> set[str]:
        """Return the addresses outside of loopback that programs of the machine listen on."""
        found = self.machine("ss -Hltn | awk '{print $4}'").split()
        return {each for each in found if not each.startswith(("127.", "[::1]", "[::ffff:127."))}


def _entitled(path: str) -> frozenset[str]:
    """Files for the secrets themselves: root's, mode 0400."""
    of_root = path.startswith((f"{ETC}/secrets.env", f"{ETC}/generated.env", f"{ETC}/secret-files/"))
    return OF_THE_AGENT if of_root else frozenset()


@pytest.fixture
def node(live_node: Node) -> Iterator[Node]:
    yield from with_own_token(live_node)


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node: Node) -> Canaries:
    (tmp_path / "work").mkdir(mode=0o700)
    found = write_sources(tmp_path / "work", tmp_path / "bin", monkeypatch, os.environ["PATH"])
    found.values["token"] = node.stage.environment["PVE_TOKEN"].partition("=")[2]
    return found


def with_own_token(node: Node) -> Iterator[Node]:
    """Nodes of other tests have the same prepared token, and programs that run for these tests are looked at too."""
    user = node.stage.environment["PVE_TOKEN"].partition("!")[0]
    made = root(node, "pveum", "user", "token", "add", user, "leaks", "--privsep", "0", "--output-format", "json")
    assert made.returncode == 0, made.stderr
    yield node.with_environment(PVE_TOKEN=f"{user}!leaks={json.loads(made.stdout)['value']}")
    assert root(node, "pveum", "user", "token", "remove", user, "leaks").returncode == 0


def hermes(node: Node, folder: Path, canaries: Canaries) -> dict[str, Any]:
    canaries.values |= Canaries.of(["auth"]).values
    (folder / "auth.json").touch(mode=0o600)
    (folder / "auth.json").write_text(f'{{"version": 1, "providers": {{}}, "note": "{canaries["auth"]}"}}')
    agent = dict(node.file()["agents"]["hermes"])
    return {**agent, "auth": {"from": {"file": "auth.json"}}}


def in_docker(node: Node, folder: Path, canaries: Canaries) -> dict[str, Any]:
    archive = str(base_root(folder.parent / "base.tar.gz"))
    return {
        "kind": "service",
        "command": ["python3", "-m", "http.server", "8080", "--bind", "127.0.0.1", "--directory", "/etc"],
        "health": {"port": 8080},
        "runtime": "docker",
        "container": {"base": "debian:12", "archive": archive, "install": True},
        "machine": {"disk": "8G", "memory": "1G"},
    }


@pytest.fixture(params=[hermes, in_docker], ids=["Hermes", "Docker"])
def shape(request: pytest.FixtureRequest, node: Node, tmp_path: Path, canaries: Canaries) -> Iterator[LiveShape]:
    agent = request.param(node, tmp_path / "work", canaries)
    shape = LiveShape(request.node.callspec.id, node, tmp_path / "work", canaries, agent)
    yield shape
    shape.run("down")
    shape.run(f"forget {NAME} --name {NAME}")


def test_real_agents_leak_no_secret_and_listen_only_where_exposed(
    shape: LiveShape, show_table: Callable[[str], None]
) -> None:
    with watched(shape.arguments, shape.environments, pause=0.2):
        for words in LIFE:
            shape.run(words)
    generated = shape.machine(f"cat {ETC}/generated.env")
    if generated.strip():
        shape.canaries.values["generated"] = generated.strip().partition("=")[2].strip('"')
    processes = {where for where, _ in shape.environments.texts()}
    assert any(where.startswith(f"uid {AGENT_UID} ") for where in processes), "the agent was not seen"
    assert shape.hits() == set()
    show_table(table({shape.name: shape.channels}, shape.canaries))
    assert shape.listening() <= {"0.0.0.0:22", "[::]:22", "*:22"}

    # A leak on each channel of the machine is found.
    value = shape.canaries["notify"]
    write = "umask 022; cat >{} <<'END'\n" + value + "\nEND\n"
    shape.machine(write.format("/etc/leak"))
    shape.machine(write.format(f"{ETC}/leak"))
    assert ("notify", "/etc/leak") in shape.channels["open to others"].find(shape.canaries)
    assert ("notify", f"{ETC}/leak") in shape.channels["bundle"].find(shape.canaries)
    shape.machine("systemd-run --quiet --unit listener python3 -m http.server 8099 && sleep 1")
    assert "0.0.0.0:8099" in shape.listening()
    shape.machine(f"rm /etc/leak {ETC}/leak && systemctl stop listener")
