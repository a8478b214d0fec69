"""An upgrade keeps the memory, a broken version brings the old version and the old state back, and so does a person."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from levels import slow_proof
from live.broken import BROKEN
from live.node import Node, kill_at_step
from live.test_lease import api
from live.upgraded import NEW, OLD, Host, Watching, cut_off, host_with_old_version, manifests
from paddock.backups.folder import FolderDestination
from paddock.channels import Guest
from paddock.core import converge, version
from paddock.core.resolve import Located
from paddock.core.streams import about, send
from paddock.demo import FACT, QUESTION
from paddock.places.proxmox.api.client import Client
from paddock.plan.actions import AgentAction, ApplyBundle

__all__ = ["api"]
pytestmark = pytest.mark.live

UPGRADE = ("code.install", "backup.reach", "agent.stop", "state.save", "agent.configure", "agent.answer")
NEWS = "The door code is 99."


@pytest.fixture
def host(node: Node, api: Client) -> Iterator[Host]:
    with host_with_old_version(node, api) as found:
        yield found


def test_an_upgrade_keeps_the_memory_and_a_rollback_brings_the_former_state_back(host: Host) -> None:
    schema = host.schema
    host.shell("rm /var/lib/paddock/hermes/.paddock/version")  # an earlier Paddock did not write it
    assert f"{OLD} becomes {NEW}" in host.paddock("upgrade", "hermes", "--dry-run").stdout
    assert host.version == OLD
    kill_at_step(host.node, random.choice(UPGRADE), "upgrade", "hermes", "-f", str(host.file))
    host.paddock("upgrade", "hermes")
    assert host.version == host.ran == NEW
    assert host.schema > schema
    assert host.ask(QUESTION) == FACT
    assert host.paddock("plan").stdout == "hermes: nothing to do\n"

    host.ask(f"Remember: {NEWS}")
    assert " messages" in host.paddock("rollback", "hermes", "--dry-run").stderr
    assert f"runs with {OLD}" in host.paddock("rollback", "hermes", "--yes").stdout
    assert host.version == host.ran == OLD
    assert host.schema == schema
    assert host.ask(QUESTION) == FACT
    assert NEWS not in host.shell("cat /var/lib/paddock/hermes/home/.hermes/memories/MEMORY.md")
    assert host.paddock("plan").stdout == "hermes: nothing to do\n"
    assert [each["version"] for each in host.saved()][-2:] == [OLD, NEW]
    assert "no upgrade to go back from" in host.paddock("rollback", "hermes", "--yes", fails=True).stderr


@slow_proof
def test_a_broken_version_brings_the_old_version_and_the_same_bytes_back(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state that the old version gets again is compared before it runs: its first answer would change it."""
    schema, seen = host.schema, FolderDestination(tmp_path / "seen", ())
    seen.check()

    def look(agent: Located, action: AgentAction, reach: Callable[[], Guest]) -> None:
        if isinstance(action, ApplyBundle) and agent.rollback:
            send(agent, reach(), seen, {**about(agent, None), "version": OLD})

    host.break_it()
    with host.deployed(monkeypatch, Watching(look)) as agent, pytest.raises(version.RolledBack) as failure:
        converge.up(agent)
    assert f"did not work with {BROKEN} from a package" in failure.value.message
    assert "broken on purpose" in host.shell("journalctl -u 'paddock-home_hermes.*'") or "500" in failure.value.message
    assert (host.ran, host.schema) == (OLD, schema)
    (before, with_broken), (restored,) = host.saved(), manifests(tmp_path / "seen")
    assert before["entries"] == restored["entries"]
    assert with_broken["entries"] != before["entries"], "the broken version did not touch the state"
    host.change(package=None, version=OLD)
    assert host.paddock("plan").stdout == "hermes: nothing to do\n"
    assert host.ask(QUESTION) == FACT


@slow_proof
def test_a_broken_upgrade_that_is_cut_off_at_any_step_goes_back(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = host.schema
    host.break_it()
    for at in range(0, 16, 2):
        cut_off(host, monkeypatch, at)
        host.paddock("up", fails=True)
        assert (host.ran, host.schema) == (OLD, schema), at
        assert "active" in host.shell("systemctl is-active paddock-home_hermes.gateway")
    host.change(package=None, version=OLD)
    host.paddock("up")
    assert host.ask(QUESTION) == FACT
