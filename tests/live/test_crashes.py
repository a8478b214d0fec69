"""An agent whose process ends again and again, under a real systemd."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from live.manual import container, destroy
from live.node import Node, wait_for
from live.test_lease import api, by_ssh
from paddock.places.proxmox.api.client import Client

__all__ = ["api"]
pytestmark = pytest.mark.live


@pytest.fixture
def host(node: Node, api: Client) -> Iterator[str]:
    yield container(node, api, 213)
    destroy(api, 213)


def test_up_and_status_say_that_a_process_ends_again_and_again(node: Node, host: str) -> None:
    tree = by_ssh(node, host)
    fails = ["/bin/sh", "-c", "echo no such model; sleep 0.5; exit 3"]
    bee = {"kind": "service", "place": "box", "command": fails, "health": {"port": 8099}}
    tree["agents"] = {"bee": {**bee, "service": {"restart_delay": "1s"}, "network": {"egress": "open"}}}
    path = str(node.write("crashes.yaml", tree))
    start = time.monotonic()
    said = node.paddock("up", "-f", path, fails=True).stderr
    assert time.monotonic() - start < 60
    assert "its process has ended" in said
    assert "(exit code 3)" in said
    assert "no such model" in said

    tree["agents"]["bee"]["command"] = ["/bin/sh", "-c", "echo no such model; sleep 2; exit 3"]
    node.write("crashes.yaml", tree)
    node.paddock("up", "-f", path, fails=True)
    row = json.loads(node.paddock("status", "-f", path, "--json").stdout)[0]
    if row["status"].startswith("crashing"):  # a first deployment has nothing to go back to
        assert row["status"].endswith("exit code 3")
    assert node.paddock("status", "-f", path, "--exit-code", fails=True).returncode == 1

    tree["agents"]["bee"] |= {"command": ["/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", "8099"]}
    node.write("crashes.yaml", tree)
    node.paddock("up", "-f", path)
    wait_for(lambda: node.paddock("status", "-f", path, "--exit-code").returncode == 0)
