"""Upgrades and rollbacks that are cut off between two steps are continued by the next `up`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from levels import slow_proof
from live.manual import api_client
from live.node import Node
from live.upgraded import NEW, OLD, Host, cut_off, host_with_old_version
from paddock.core import version
from paddock.core.on_machine import OnMachine
from paddock.demo import FACT, QUESTION

pytestmark = [pytest.mark.live, slow_proof]


@pytest.fixture(scope="module")
def host(node: Node) -> Iterator[Host]:
    """One host for all tests here. Each of them ends with the old version."""
    with host_with_old_version(node, api_client(node)) as found:
        yield found


def test_an_upgrade_that_is_cut_off_at_any_step_is_continued(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = host.schema
    for at in range(7):
        host.change(version=NEW)
        cut_off(host, monkeypatch, at)
        host.paddock("up")
        assert (host.ran, host.ask(QUESTION)) == (NEW, FACT), at
        host.paddock("rollback", "hermes", "--yes")
        assert (host.ran, host.schema) == (OLD, schema), at
    assert host.ask(QUESTION) == FACT


def test_a_rollback_that_is_cut_off_at_any_step_is_continued(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = host.schema
    for at in range(8):  # after the eighth step it has ended
        host.paddock("upgrade", "hermes")
        with host.deployed(monkeypatch, OnMachine()) as agent:
            version.begin_rollback(agent)
        cut_off(host, monkeypatch, at)
        told = host.paddock("up", fails=True).stderr
        assert f"hermes went back from {NEW} to {OLD}" in told, at
        assert (host.ran, host.schema) == (OLD, schema), at
        host.change(version=OLD)
        assert host.ask(QUESTION) == FACT, at
        assert host.paddock("plan").stdout == "hermes: nothing to do\n"
