"""What earlier versions deployed runs again from its recorded files, and `up` recognises it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from deployed import Deployed, NodeConsole, node_state, prepare_machine, put_on, sandbox, shell
from levels import slow_proof
from live.manual import api_client, container, destroy
from live.node import Node, wait_for
from paddock.demo import Stage, environment, stage_folder
from paddock.guests.ssh import SshGuest, scan_host_key
from paddock.places.proxmox import tls
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.observe import address
from paddock.secret import Secret

pytestmark = pytest.mark.live

VMID = 250  # of a host
# Owners, modes and content of a state, without the name of the holder and its time.
STATE = "cd {state} && find . ! -name holder -printf '%P %U:%G %m\\n' | sort && cat .paddock/identity home/memory/facts"


@contextmanager
def recorded_node() -> Iterator[tuple[Node, Client]]:
    """Run a sandbox with real containers that is the recorded node. Its machines are empty."""
    with stage_folder() as folder:
        Deployed("proxmox").write_file(folder)
        with sandbox(folder, node_state()) as ready:
            node = Node(Stage(folder, environment(folder)))
            place = {"url": ready["url"], "ca": ready["ca"]}
            YAML(typ="safe").dump({"places": {"box": {"proxmox": place}}}, folder / "here.yaml")
            token = Secret((folder / "token.key").read_text().strip())
            yield node, Client(ready["url"], "pve", token, tls.context(ready["url"], Path(ready["ca"]), None))


def test_up_recognises_a_recorded_machine_with_its_state() -> None:
    web = Deployed("proxmox")
    with recorded_node() as (node, api):
        put_on(NodeConsole(node.stage.folder / "sandbox", 101), web, "web")
        wait_for(lambda: (found := address(api, 101)) is not None and scan_host_key(found) is not None)
        where = address(api, 101)
        assert where
        before = node.shell(where, STATE.format(state="/var/lib/paddock/web"))
        assert "the gate code is 7421" in before
        assert node.shell(where, "systemctl is-active paddock-web.lease paddock-web.main") == "active\nactive\n"
        files = ("-f", "paddock.yaml", "-f", "here.yaml", "--only", "web")
        assert node.paddock("plan", *files).stdout == "web: nothing to do\n"
        assert node.paddock("up", *files).stdout == "web: nothing to do, and healthy\n"
        assert node.shell(where, STATE.format(state="/var/lib/paddock/web")) == before


@pytest.fixture
def host(node: Node) -> Iterator[SshGuest]:
    api = api_client(node)
    where = container(node, api, VMID, memory=3072, rootfs="local-lvm:10", hostname="host")
    try:
        yield SshGuest(where, where, key=node.stage.folder / "id_ed25519", host_keys=(scan_host_key(where) or "",))
    finally:
        destroy(api, VMID)


@pytest.mark.parametrize(
    ("shape", "state"),
    [
        ("systemd-host", "/var/lib/paddock/web"),
        *(
            pytest.param(shape, state, marks=slow_proof)
            for shape, state in (
                ("systemd-account", "/home/someone/.local/share/paddock/web/state"),
                ("docker-host", "/var/lib/paddock/web"),
                ("podman-host", "/var/lib/paddock/web"),
                ("podman-account", "/home/someone/.local/share/paddock/web/state"),
            )
        ),
    ],
)
def test_up_recognises_a_recorded_agent_on_a_host(
    node: Node, host: SshGuest, tmp_path: Path, shape: str, state: str
) -> None:
    deployed = Deployed(shape)
    prepare_machine(host, shape.partition("-")[0], without_root=deployed.without_root)
    put_on(host, deployed, "web")
    before = shell(host, STATE.format(state=state))
    assert "the gate code is 7421" in before
    here = {"address": host.address, "host_key": host.host_keys[0], "key": str(host.key)}
    YAML(typ="safe").dump({"places": {"box": {"host": here}}}, tmp_path / "here.yaml")
    files = ("-f", str(deployed.write_file(tmp_path)), "-f", str(tmp_path / "here.yaml"))
    # A container takes a moment to start. A plan may also note that the engine's storage driver is slow.
    wait_for(lambda: node.paddock("plan", *files).stdout.startswith("web: nothing to do\n"))
    assert node.paddock("up", *files).stdout.startswith("web: nothing to do, and healthy\n")
    assert shell(host, STATE.format(state=state)) == before
