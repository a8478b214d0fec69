"""`adopt` turns a container that people made into the machine of an agent, and its volume into the state."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from live.node import ROOT, Node, wait_for
from live.node_root import root
from paddock.base.process import run
from paddock.base.secret import Secret
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.client import Client

pytestmark = pytest.mark.live

VMID = 770
HOME = "/home/kept"
AGENT: dict[str, Any] = {
    "kind": "service",
    "place": "box",
    "command": ["/bin/sleep", "infinity"],
    "user": {"name": "kept", "uid": 4242},
}
# Files as people leave them: most with the agent's uid, some with root's, and a group that they chose.
LEFT_BEHIND = f"""
mkdir -p {HOME}/.memory
echo 'the gate code is 7421' >{HOME}/.memory/facts
echo 'by root' >{HOME}/by-root
chown -R 4242:5151 {HOME}/.memory
touch -d '2020-01-01 00:00:00 UTC' {HOME}/.memory/facts
"""


class ManualContainer:
    """A manually created container, and a file that names it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.tree = node.file()
        self.tree["places"]["box"]["proxmox"]["template"] = "none"
        self.tree["agents"] = {"kept": AGENT}
        self.path = node.write("kept.yaml", self.tree)
        self.person = node.stage.folder / "person"
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.person)])

    def make(self) -> None:
        box = self.tree["places"]["box"]["proxmox"]
        trust = tls.context(box["url"], Path(box["ca"]) if "ca" in box else None, box.get("fingerprint"))
        client = Client(box["url"], box["node"], Secret(self.node.token(ROOT)), trust)
        params = {
            "vmid": VMID,
            "ostemplate": box["base"],
            "hostname": "kept",
            "rootfs": "local-lvm:2",
            "mp0": f"local-lvm:1,mp={HOME}",
            "features": "nesting=1",
            "net0": "name=eth0,bridge=vmbr0,ip=dhcp",
            "ssh-public-keys": (self.node.stage.folder / "id_ed25519.pub").read_text(),
        }
        client.task("POST", f"/nodes/{client.node}/lxc", params)
        client.task("POST", f"/nodes/{client.node}/lxc/{VMID}/status/start")
        client.close()

    def inside(self, script: str) -> str:
        """Run a script as root in the container with `pct exec`, and return its output."""
        state = str(self.node.stage.folder / "sandbox")
        command = ["root", "--state", state, "--", "pct", "exec", str(VMID), "--", "sh", "-c", script]
        done = subprocess.run([sys.executable, "-m", "pvebox", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def paddock(self, *words: str, fails: bool = False) -> str:
        done = self.node.paddock(words[0], "-f", str(self.path), *words[1:], fails=fails)
        return done.stderr + done.stdout if fails else done.stdout

    def allow_people(self, *keys: str) -> None:
        self.paddock("up", "--set", f"places.box.proxmox.ssh.people={list(keys)}")

    def person_can_log_in(self) -> bool:
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes"]
        address = self.inside("hostname -I").split()[0]
        return run(["ssh", *options, "-i", str(self.person), f"root@{address}", "true"]).ok


@pytest.fixture
def manual(node: Node) -> Iterator[ManualContainer]:
    found = ManualContainer(node)
    found.make()
    try:
        yield found
    finally:
        found.paddock("down")
        found.paddock("forget", "kept", "--name", "kept")


def test_a_manually_created_container_is_adopted_and_its_state_survives_a_cycle(manual: ManualContainer) -> None:
    wait_for(lambda: manual.inside("systemctl is-system-running --wait || true") != "")
    manual.inside(LEFT_BEHIND)
    into_pool = f"pveum pool modify paddock --vms {VMID}"
    assert f"run as root on the node: {into_pool}" in manual.paddock("adopt", "kept", str(VMID), fails=True)
    assert root(manual.node, *into_pool.split()).returncode == 0
    assert f"paddock adopt kept {VMID} --state mp0" in manual.paddock("adopt", "kept", str(VMID), fails=True)
    key = manual.inside("ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    confirmed = f"agents.kept.machine.host_key={key}"
    manual.paddock("adopt", "kept", str(VMID), "--state", "mp0", "--yes", "--set", confirmed)

    # `adopt` has written the container into the file; the machine itself needs no change.
    assert f"path: {HOME}" in manual.path.read_text()
    planned = manual.paddock("plan").splitlines()[1:]
    assert [line.split("(")[0].strip() for line in planned] == [
        "+ make the existing files the state of kept, in its home",
        "+ configure kept",
        "+ wait for an answer from kept",
    ]

    # `up` refuses while a process has files of the state open.
    manual.inside(f"cd {HOME} && (sleep 300 & echo $! >/run/somebody) >/dev/null 2>&1")
    assert "has files of /home/kept open" in manual.paddock("up", fails=True)
    manual.inside("kill $(cat /run/somebody)")

    person = manual.person.with_suffix(".pub").read_text().strip()
    manual.allow_people(person)
    facts = (
        f"cat {HOME}/home/.memory/facts && stat -c %u:%g:%Y {HOME}/home/.memory/facts {HOME}/home/by-root | cut -c1-20"
    )
    expected = ["the gate code is 7421", "4242:5151:1577836800", manual.inside(facts).splitlines()[-1]]
    assert manual.inside(facts).splitlines() == expected
    assert expected[-1].startswith("4242:4242:")
    assert manual.person_can_log_in()
    manual.allow_people()
    assert not manual.person_can_log_in()
    assert manual.paddock("plan") == "kept: nothing to do\n"

    manual.paddock("cycle")
    assert manual.inside(facts).splitlines() == expected
    assert manual.paddock("plan") == "kept: nothing to do\n"
