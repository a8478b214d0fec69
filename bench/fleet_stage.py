"""A sandbox with any number of agents that exist, as Paddock has made them."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from bench.fleet_machines import Connection, Guest, Machines, host_key
from paddock.core import converge
from paddock.core.open import deployments
from paddock.core.resolve import locate, resolve
from paddock.kinds import load
from paddock.plan.agent import AgentSeen
from paddock.show.reporter import Reporter
from pvebox.cluster.fixture import default_fixture
from pvebox.standins.stage import server

_TOKEN: Final = "pooled@pve!setup"  # noqa: S105 - its name; it may touch the pools of Paddock only
FIRST: Final = "a0000"


@dataclass(frozen=True)
class Part:
    """A container that Paddock has created: its number, and the text of its configuration."""

    vmid: int
    text: str


@dataclass(frozen=True)
class Made:
    """What Paddock has created for one agent."""

    pet: Part
    machine: Part
    template: Part | None


def names(count: int) -> list[str]:
    """Return the names of this many agents."""
    return [f"a{number:04}" for number in range(count)]


def write_file(folder: Path, ready: Mapping[str, Any], agents: Sequence[str]) -> Path:
    """Write a file with these agents for a sandbox; return its path."""
    (folder / "token").touch(mode=0o600)
    (folder / "token").write_text(f"{_TOKEN}={ready['tokens'][_TOKEN]}")
    (folder / "model.key").touch(mode=0o600)
    (folder / "model.key").write_text("sk-of-nobody")
    key = folder.parent / "id"  # the same for all files: a template is named by it
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    place = {
        "url": ready["url"],
        "node": ready["node"],
        "token": {"file": "token"},
        "ca": ready["ca"],
        "storage": ready["storage"],
        "base": ready["base"],
        "ssh": {"key": str(key)},
    }
    file = folder / "paddock.yaml"
    said = {"project": "fleet", "places": {"home": {"proxmox": place}}}
    file.write_text(json.dumps({**said, "agents": {name: _agent(name) for name in agents}}))
    return file


def _agent(name: str) -> dict[str, Any]:
    provider = {"base_url": "http://10.60.255.1:4000/v1", "key_env": "MODEL_KEY", "default_model": "m"}
    return {
        "kind": "hermes",
        "version": "0.19.0",
        "place": "home",
        "machine": {"net": {"address": f"{address_of(name)}/16", "gateway": "10.60.255.254"}},
        "settings": {"model": {"provider": "custom:litellm", "default": "m"}, "providers": {"litellm": provider}},
        "secrets": {"MODEL_KEY": {"file": "model.key"}},
        "connectors": {"api_server": {"port": 8642}},
    }


def address_of(name: str) -> str:
    """Return the fixed address of an agent's machine."""
    number = int(name[1:]) + 1
    return f"10.60.{number // 250}.{number % 250 + 1}"


@contextmanager
def sandbox(folder: Path, fixture: Mapping[str, Any], milliseconds: int) -> Iterator[dict[str, Any]]:
    """Run a sandbox that delays each answer; yield its ready line, with the path of its state."""
    folder.mkdir()
    state, given, faults = folder / "node", folder / "fixture.json", folder / "faults.json"
    given.write_text(json.dumps(fixture))
    faults.write_text(json.dumps([{"kind": "slow", "value": str(milliseconds), "count": 0}] if milliseconds else []))
    words = ("--runtime", "memory", "--state", str(state), "--port", "0", "--fixture", str(given))
    try:
        with server(folder, "pvebox", "serve", *words, "--faults", str(faults)) as ready:
            yield {**ready, "state": str(state)}
    finally:
        subprocess.run([sys.executable, "-m", "pvebox", "clean", "--state", str(state)], check=True)


def make_one(folder: Path) -> Made:
    """Bring one agent up on an empty node; return what Paddock has created for it."""
    with sandbox(folder / "one", default_fixture(), 0) as ready:
        file = write_file(folder / "one", ready, [FIRST])
        with (
            patch("paddock.places.proxmox.machine.reach.SshGuest", Guest),
            patch("paddock.places.proxmox.machine.reach.SharedConnection", Connection),
            patch("paddock.places.proxmox.machine.reach.listens", lambda *_: True),
            patch(
                "paddock.places.proxmox.machine.reach.scan_host_key", lambda *_, **__: f"ssh-ed25519 {host_key('base')}"
            ),
            patch("paddock.places.proxmox.node.reading.address", lambda *_: address_of(FIRST)),  # also of the builder
            patch(
                "paddock.places.proxmox.machine.reach.Reacher._check_key", lambda *_: None
            ),  # the sandbox logs other keys
            patch("paddock.core.on_machine.OnMachine", lambda: Machines({FIRST: AgentSeen()})),
            redirect_stderr(io.StringIO()),  # the story of the run
            deployments(load(file), [], Reporter()) as agents,
        ):
            converge.up(agents[0])
        state = Path(ready["state"])
        return Made(part_of(state, "pet"), part_of(state, "cattle"), part_of(state, "template"))


def part_of(state: Path, role: str) -> Part:
    """Return the container of a sandbox that Paddock has created for this role."""
    texts = {path: path.read_text() for path in state.glob("pve/nodes/pve/lxc/*.conf")}
    return next(Part(int(path.stem), text) for path, text in texts.items() if f"role={role} " in text)


def fixture_of(made: Made, agents: Sequence[str]) -> dict[str, Any]:
    """Return a node on which these agents exist: each has what the one agent has, with its own name and numbers."""
    shared = [made.template] if made.template else []
    configs = {part.vmid: part.text for part in shared}
    numbers = (number for number in itertools.count(100) if number not in [part.vmid for part in shared])
    pets: list[int] = []
    machines: list[int] = []
    for name in agents:
        renumbered = {made.pet.vmid: next(numbers), made.machine.vmid: next(numbers)}
        for part, found in ((made.pet, pets), (made.machine, machines)):
            found.append(renumbered[part.vmid])
            configs[renumbered[part.vmid]] = _as(name, part.text, renumbered)
    fixture = default_fixture()
    fixture["pools"] = {
        "paddock": {"members": [*(part.vmid for part in shared), *machines]},
        "paddock-state": {"members": pets},
    }
    volumes = {name: 1 << 30 for text in configs.values() for name in re.findall(r"(?:vm|base)-\d+-disk-\d+", text)}
    fixture["state"] = {"config": configs, "volumes": volumes, "running": machines}
    return fixture


def _as(name: str, text: str, numbers: Mapping[int, int]) -> str:
    text = text.replace(FIRST, name).replace(address_of(FIRST), address_of(name))
    return re.sub(r"\b(vm|base)-(\d+)-", lambda found: f"{found[1]}-{numbers.get(int(found[2]), found[2])}-", text)


def remember_machines(folder: Path, file: Path) -> None:
    """Write down what each machine reports when everything on it is as the file says."""
    with deployments(load(file), [], Reporter()) as agents:
        seen = {agent.name: _as_wanted(agent) for agent in agents}
    (folder / "seen.pickle").write_bytes(pickle.dumps(seen))


def _as_wanted(agent: Any) -> AgentSeen:
    want = resolve(locate(agent)).want()
    return AgentSeen(
        packages=want.packages,
        trees=frozenset({want.tree} if want.tree else ()),
        bundle_id=want.bundle_id,
        answered=want.bundle_id,
        secrets=want.secrets,
        state_of=str(agent.id),
        units={f"paddock-{agent.name}.main.service": "active"},
    )


def nothing_seen() -> bytes:
    """Return what no machines report."""
    return pickle.dumps({})
