"""Versions change in every shape: a new machine on a node, and a container whose code is another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from levels import slow_proof
from live.engine_host import ENGINE_DISKS, Host
from live.manual import api_client, container, destroy
from live.node import Node
from live.upgraded import NEW, OLD
from paddock.channels.ssh import scan_host_key
from paddock.demo import FACT, QUESTION

pytestmark = [pytest.mark.live, slow_proof]

VMID = 241  # of the host
RAN = "cat /var/lib/paddock/hermes/.paddock/version"


def test_a_new_machine_gets_a_state_of_another_version_only_after_it_was_saved(node: Node) -> None:
    """Nothing inside a machine that does not exist is known, so the plan has no such step: the machine refuses."""
    tree = node.file()
    tree["places"]["box"]["proxmox"]["template"] = "none"
    tree["agents"] = {"older": tree["agents"]["hermes"] | {"version": OLD}}
    file = str(node.write("older.yaml", tree))

    def ask(prompt: str) -> str:
        return node.paddock("ask", "older", prompt, "-f", file).stdout.strip()

    try:
        node.paddock("up", "-f", file)
        assert FACT in ask(f"Remember: {FACT}")
        node.paddock("down", "-f", file)
        tree["agents"]["older"]["version"] = NEW
        node.write("older.yaml", tree)
        assert "save the state" not in node.paddock("plan", "-f", file).stdout
        told = node.paddock("up", "-f", file).stderr
        assert "the state of older is one of another version; observing again" in told
        assert "the state is saved as backup" in told
        assert ask(QUESTION) == FACT
        assert f"runs with {OLD}" in node.paddock("rollback", "older", "--yes", "-f", file).stdout
        assert ask(QUESTION) == FACT
        assert node.paddock("plan", "-f", file).stdout.startswith("older: nothing to do\n")
    finally:
        node.paddock("down", "-f", file)
        node.paddock("forget", "older", "--name", "older", "-f", file)


@pytest.fixture
def host(node: Node) -> Iterator[Host]:
    api = api_client(node)
    address = container(node, api, VMID, memory=3072, rootfs="local-lvm:10", mp0=ENGINE_DISKS["mp0"])
    try:
        yield Host(node, address, scan_host_key(address) or "")
    finally:
        destroy(api, VMID)


def test_an_upgrade_keeps_the_container_and_its_software(host: Host, roots: dict[str, Path]) -> None:
    base = {"base": "debian:12", "archive": str(roots["base"]), "install": True}
    host.becomes("hermes", runtime="docker", container=base, version=OLD)
    host.up()
    assert FACT in host.paddock("ask", "hermes", f"Remember: {FACT}").stdout
    first = host.id()
    host.agent["version"] = NEW
    assert f"{OLD} becomes {NEW}" in host.plan()
    host.up()
    assert (host.id(), host.root(RAN)) == (first, NEW)
    assert host.paddock("ask", "hermes", QUESTION).stdout.strip() == FACT
    host.paddock("rollback", "hermes", "--yes")
    host.agent["version"] = OLD
    assert (host.id(), host.root(RAN)) == (first, OLD)
    assert host.paddock("ask", "hermes", QUESTION).stdout.strip() == FACT
    assert host.plan().startswith("hermes: nothing to do\n")
