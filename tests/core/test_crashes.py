"""An agent whose process ends again and again: `status` has a word for it, and `up` does not wait for it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from clocks import SimulatedClock
from paddock.base import clock
from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.base.secret import Secret
from paddock.channels import Guest
from paddock.core import on_machine
from paddock.core.converge import up
from paddock.core.on_machine import OnMachine
from paddock.core.resolve import locate
from paddock.core.verify import Unhealthy
from paddock.kinds.workload import Verdict
from paddock.plan.agent import AgentSeen, Ends
from paddock.verbs import status as statuses
from paddock.verbs.status import Status
from places.node import CATTLE, Node, PaperAgent, address_of, play_ssh

UNIT = "paddock-bee.main.service"
LOG = "starting\nTraceback\nValueError: no such model \x1b[2J\n"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    play_ssh(monkeypatch, node)
    return node


def crashed(node: Node, restarts: int = 19, how: str = "exit code 3", state: str = "activating") -> PaperAgent:
    """Return an agent whose process has ended so often."""
    up(node.agent())
    seen = node.machines.inside[address_of(CATTLE)]
    ends, units = {UNIT: Ends(restarts, how)}, {UNIT: state}
    node.machines.inside[address_of(CATTLE)] = replace(seen, units=units, ends=ends, said="error: no such model")
    return node.agent()


def test_status_says_that_an_agent_crashes(node: Node) -> None:
    found = Status.of(crashed(node))
    assert (found.status, found.health) == ("crashing, 19 restarts, exit code 3", "error: no such model")
    assert not found.is_well


def test_status_says_that_an_agent_has_failed(node: Node) -> None:
    found = Status.of(crashed(node, 0, "exit code 78", "failed"))
    assert found.status == "failed, exit code 78"
    assert not found.is_well


@pytest.mark.parametrize(("health", "well"), [(Verdict(True, "fine"), True), (Verdict(False, "refused"), False)])
def test_an_agent_is_well_if_it_runs_and_is_healthy(
    node: Node, monkeypatch: pytest.MonkeyPatch, health: Verdict, *, well: bool
) -> None:
    up(node.agent())
    monkeypatch.setattr(statuses, "health_of", lambda *_: health)
    assert Status.of(node.agent()).is_well is well


class Log:
    """A machine whose agent has this log."""

    name = "machine"

    def run(self, argv: Any, **_: Any) -> Result:
        assert argv[0] == "journalctl"
        return Result(tuple(argv), 0, LOG, "", 0)


def awaited(node: Node, monkeypatch: pytest.MonkeyPatch, *observed: AgentSeen) -> tuple[PaddockError, float]:
    """Wait for an agent that never answers and is observed like this. Return the error, and the seconds it took."""
    agent = locate(node.agent(verify={"timeout": "90s"}))
    monkeypatch.setattr(clock, "current", SimulatedClock())
    left = list(observed)
    monkeypatch.setattr(on_machine, "_observed", lambda *_: left.pop(0) if len(left) > 1 else left[0])

    def ask(seconds: float) -> Unhealthy:
        clock.sleep(min(seconds, 3))
        return Unhealthy("port 8642 does not accept connections")

    start = clock.monotonic()
    with pytest.raises(PaddockError) as caught:
        OnMachine()._await_health(agent, cast("Guest", Log()), partial(ask))
    return caught.value, clock.monotonic() - start


def test_up_stops_waiting_for_a_process_that_ends_again_and_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    fine, once = AgentSeen(units={UNIT: "active"}), AgentSeen(units={UNIT: "activating"}, ends={UNIT: Ends(1, "")})
    error, seconds = awaited(node, monkeypatch, fine, once, replace(once, ends={UNIT: Ends(3, "exit code 3")}))
    assert error.message == (
        "bee did not become healthy: its process has ended 4 times (exit code 3); the end of its log:\n"
        "  starting\n  Traceback\n  ValueError: no such model \\x1b[2J"
    )
    assert "paddock logs bee" in str(error.hint)
    assert seconds < 15


def test_up_waits_for_a_process_that_was_restarted_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    once = AgentSeen(units={UNIT: "active"}, ends={UNIT: Ends(1, "exit code 75")})
    error, seconds = awaited(node, monkeypatch, once)
    assert "port 8642 does not accept connections" in error.message
    assert seconds >= 90


def test_a_secret_in_the_end_of_the_log_is_masked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret("sk-canary-31415926")
    monkeypatch.setattr(Log, "run", lambda self, argv, **_: Result(tuple(argv), 0, f"key {secret.reveal()}\n", "", 0))
    crash = AgentSeen(units={UNIT: "activating"}, ends={UNIT: Ends(5, "")})
    error, _ = awaited(node, monkeypatch, crash)
    assert "canary" not in error.message
