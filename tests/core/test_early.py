"""Which run begins to connect before its place was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.channels import shared
from paddock.core.observe import connecting
from paddock.kinds import load

FILE = """
project: home
places:
  lab:
    proxmox:
      url: https://Node:8006/
      node: pve
      token: {env: PVE_TOKEN}
      storage: local-lvm
      base: local:vztmpl/debian-12.tar.zst
      ssh: {key: id}
  here: {host: {}}
agents:
  bee: {kind: service, place: lab, packages: [nginx], command: [/usr/sbin/nginx]}
  ant: {kind: service, place: lab, packages: [nginx], command: [/usr/sbin/nginx], machine: {node: other}}
  fly: {kind: service, place: here, packages: [nginx], command: [/usr/sbin/nginx]}
"""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The agents to which a connection is begun."""
    found: list[str] = []
    monkeypatch.setattr(shared, "_remembered", found.append)
    return found


@pytest.mark.parametrize(
    ("only", "agents"),
    [
        (["bee"], ["https://node:8006 pve home_bee"]),
        (["ant"], ["https://node:8006 other home_ant"]),
        (["fly"], []),
        (["bee", "ant"], []),
        ([], []),
    ],
)
def test_a_run_with_one_agent_on_proxmox_begins_to_connect(
    tmp_path: Path, begun: list[str], only: list[str], agents: list[str]
) -> None:
    (tmp_path / "paddock.yaml").write_text(FILE)
    with connecting(load(tmp_path / "paddock.yaml"), only):
        pass
    assert begun == agents
