"""An `up` with nothing to do: one connection to the machine, and few requests to the node."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from asked import answer, asked
from paddock.base.process import Result
from paddock.channels import Guest, shared
from paddock.channels.ssh import SshGuest
from paddock.core.converge import down, up
from paddock.core.observe import observe
from paddock.core.on_machine import OnMachine
from paddock.core.resolve import locate, resolve
from paddock.places.contract import Got
from paddock.places.proxmox.actions import ADDRESS, HOST_KEY, REACHED, REACHED_NAME
from paddock.places.proxmox.machine import reach as reach_module
from paddock.plan.agent import AgentSeen
from places.node import Node

READS = 20  # beside one for each container; `observe` reads the node once, and the lock of the run writes nothing
Facts = Callable[[Mapping[str, Any]], Any]


def well(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts about an agent that works."""
    running = {"state": "active", "pid": 7, "restarts": 0, "since": time.time()}
    top, own, home = question["folders"]
    folders = {top: ("1770", 0), own: ("700", 0), home: ("700", 10000)}
    found: dict[str, Any] = {
        "state": {
            "folders": {path: {"mode": mode, "uid": uid, "gid": uid} for path, (mode, uid) in folders.items()},
            "mounted": True,
            "size": 1 << 30,
            "free": 1 << 29,
        },
        "lease": {"held": True, "holders": [7], "holder": "bee since 2026-01-01T00:00:00Z"},
        "ports": {"own": question["ports"], "others": []},
        "outside": [],
        "inside": {
            "uid": 10000,
            "answers": [{"found": {"content": 1}, "seconds": 0.1} for _ in question["inside"]["questions"]],
        },
    }
    processes = dict.fromkeys([*question["processes"], "lease"], running)
    about = {"processes": processes, "dropped": [], "now": time.time(), "uid": 0}
    return {**about, **{name: {"found": fact, "seconds": 0.1} for name, fact in found.items()}}


class Machine:
    """The machine of an agent as the file says, and the names of the requests that were made to it."""

    def __init__(self, seen: AgentSeen, facts: Facts) -> None:
        self.name = "bee"
        self.requests: list[str] = []
        self._seen = seen
        self._facts = facts

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", deadline: float = 60.0) -> Result:
        name, given = asked(stdin)
        self.requests.append(name)
        match name:
            case "Observe":
                value: Any = self._report
            case "Look":
                value = self._facts(given["question"])
            case "ObserveAndLook":
                value = {"agent": self._report, "facts": self._facts(given["look"]["question"])}
            case _:
                raise ValueError(f"the machine cannot answer {name}")
        return Result(tuple(argv), 0, answer(value), "", 0.01)

    @property
    def _report(self) -> dict[str, Any]:
        seen = self._seen
        return {
            **{name: getattr(seen, name) for name in ("packages", "units", "bundle_id", "answered", "secrets")},
            "init": "systemd",
            "state_of": "home_bee",
            "state_at": "/var/lib/paddock/bee",
        }


def machine_of(node: Node, monkeypatch: pytest.MonkeyPatch, facts: Facts = well) -> Machine:
    """Bring an agent up, and return its machine; what follows happens on that machine."""
    up(node.agent())
    machine = Machine(node.agent().seen_as_wanted(), facts)
    monkeypatch.setattr(reach_module, "SshGuest", lambda *_, **__: machine)
    node.side = OnMachine()
    node.sent.clear()
    return machine


def test_an_up_with_nothing_to_do_connects_once_to_the_machine(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_of(node, monkeypatch)
    assert up(node.agent()) == "bee: nothing to do, and healthy"
    assert machine.requests == ["ObserveAndLook"]
    assert not node.writes
    assert len(node.sent) <= READS + len(node.vmids), [str(sent) for sent in node.sent]


def test_an_up_looks_again_if_the_first_look_was_cut_short(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent can make the look take long; the machine then answers without facts."""
    facts = iter([None])
    machine = machine_of(node, monkeypatch, lambda question: next(facts, well(question)))
    assert up(node.agent()) == "bee: nothing to do, and healthy"
    assert machine.requests == ["ObserveAndLook", "Look"]


def test_an_unhealthy_agent_is_found_by_the_same_look(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def restarting(question: Mapping[str, Any]) -> Any:
        return json.loads(json.dumps(well(question)).replace('"active"', '"activating"'))

    machine = machine_of(node, monkeypatch, restarting)
    agent = resolve(locate(node.agent()))
    assert not node.side.is_healthy(agent, observe(agent))
    assert machine.requests == ["ObserveAndLook"]


def test_a_verb_that_needs_no_checks_asks_for_none(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_of(node, monkeypatch)
    seen = node.agent().observe().agent
    assert seen
    assert seen.facts is None


def test_the_next_run_knows_where_the_machine_is_until_the_machine_is_gone(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def remembered(got: Got | None = None) -> tuple[Guest | None, SshGuest | None]:
        """Return the channel to the agent's machine, and what the next run begins to connect to."""
        agent = locate(node.agent())
        want = agent.machine_want
        with monkeypatch.context() as real:
            real.setattr(reach_module, "SshGuest", SshGuest)
            guest = agent.place.guest(want, agent.place.observe(want), got or {})
        return guest, shared._remembered(f"{agent.place.traits.identity} {want.id}")

    up(node.agent())
    builder = {ADDRESS.name: "10.0.0.9", HOST_KEY.name: "AAAA", REACHED.name: "109", REACHED_NAME.name: "builder-109"}
    assert remembered(builder)[1] is None
    machine, known = remembered()
    assert machine == known
    assert known
    down(node.agent())
    assert remembered() == (None, None)
