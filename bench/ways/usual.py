"""The usual way: requests to the API, as Terraform sends them, and the playbook in `bench/peer`.

Its state is on a volume of a protected container, the pet. The machine is created from the base and gets the volume
while it is stopped. Terraform itself is not run, so its own time is not counted.
"""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from bench.client import to_banner
from bench.ways.ground import NODE, Ground
from bench.ways.meter import Measured, Measurement
from pvebox.standins.stage import MODEL_KEY
from sandbox.clients.installed import PACKAGES, install

PEER: Final = Path(__file__).parents[1] / "peer"
_PET, _MACHINE = 9990, 9105
_TASK: Final = re.compile(r"^TASK \[(?:(\S+) : )?.*\]")
_FIRST_ROLE: Final = "baseline"


class UsualWay:
    """Creates a machine with plain requests and configures it with Ansible."""

    name: Final = "usual way"

    def __init__(self, ground: Ground) -> None:
        self._ground, self._api = ground, ground.api
        self._folder = ground.stage.folder / "usual"
        self._folder.mkdir()
        self._key = secrets.token_hex(16)
        self._ansible = install(self._folder, *(each for each in PACKAGES if each.startswith("ansible-core")))
        # Secrets go into a file, not into arguments.
        self._vars = self._folder / "vars.json"
        self._vars.touch(mode=0o600)
        known = {"agent_version": ground.version, "llm_url": ground.models, "llm_key": MODEL_KEY, "model": "stand-in"}
        self._vars.write_text(json.dumps({**known, "api_key": self._key}))

    def first(self) -> Measured:
        return self._deploy()

    def recreate(self) -> Measured:
        return self._deploy()

    def remove(self) -> None:
        machine = f"{NODE}/lxc/{_MACHINE}"
        self._api.task("POST", f"{machine}/status/stop")
        for key in ("mp0", "unused0"):
            if key in self._api.ask("GET", f"{machine}/config"):
                self._api.ask("PUT", f"{machine}/config", delete=key)
        self._api.task("DELETE", machine)

    def machine(self) -> tuple[int, str]:
        return _MACHINE, self._key

    def _deploy(self) -> Measured:
        machine = f"{NODE}/lxc/{_MACHINE}"
        measuring = self._ground.meter.start(self.name)
        volume = self._pet()
        measuring.done("pet")
        self._api.task("POST", f"{NODE}/lxc", vmid=_MACHINE, **self._options("hermes", 8), **self._network(), start=1)
        measuring.done("create")
        to_banner(self._api, _MACHINE)
        measuring.done("wait for ssh")
        self._api.task("POST", f"{machine}/status/stop")
        self._api.ask("PUT", f"{machine}/config", mp0=f"{volume},mp=/home/hermes")
        self._api.task("POST", f"{machine}/status/start")
        address = to_banner(self._api, _MACHINE)
        measuring.done("attach the volume")
        self._play(address, measuring)
        return measuring.end()

    def _pet(self) -> str:
        """Return the volume of the pet, which is created if it does not exist."""
        if _PET not in {int(row["vmid"]) for row in self._api.ask("GET", f"{NODE}/lxc")}:
            storage = self._ground.place["storage"]
            volume = f"{storage}:10,mp=/mnt/hermes-volume,backup=1"
            options = self._options("pet-storage", 1)
            self._api.task("POST", f"{NODE}/lxc", vmid=_PET, **options, mp0=volume, protection=1)
        return str(self._api.ask("GET", f"{NODE}/lxc/{_PET}/config")["mp0"]).partition(",")[0]

    def _options(self, name: str, gigabytes: int) -> dict[str, Any]:
        place = self._ground.place
        root = f"{place['storage']}:{gigabytes}"
        safe = {"unprivileged": 1, "features": "nesting=1"}
        return {"hostname": name, "ostemplate": place["base"], "rootfs": root, **safe}

    def _network(self) -> dict[str, Any]:
        net = f"name=eth0,bridge={self._ground.place['bridge']},ip=dhcp"
        return {"net0": net, "ssh-public-keys": self._ground.public_key, "cores": 2, "memory": 2048}

    def _play(self, address: str, measuring: Measurement) -> None:
        """Run the playbook once, so that facts are gathered once, and note when each role ends."""
        # A connection that Ansible keeps open must not be used for another machine with the same address.
        sockets = self._folder / f"cp-{measuring.began:.0f}"
        key = self._ground.stage.folder / "id_ed25519"
        inventory = self._folder / "inventory"
        ssh = "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        inventory.write_text(f"{address} ansible_ssh_private_key_file={key} ansible_ssh_common_args='{ssh}'\n")
        environment = {
            **self._ansible.environment(),
            "ANSIBLE_CONFIG": str(PEER / "ansible.cfg"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
            "PATH": self._ground.meter.path,
        }
        command = [str(self._ansible.folder / "venv/bin/ansible-playbook"), "-i", str(inventory)]
        running = subprocess.Popen(
            [*command, "-e", f"@{self._vars}", str(PEER / "site.yml")],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            with running, measuring.memory_of(running):
                note_roles(measuring, running.stdout or ())
        finally:
            _close(sockets)
        if running.returncode:
            raise SystemExit(f"the playbook ended with code {running.returncode}")


def note_roles(measuring: Measurement, printed: Iterable[str]) -> None:
    """Note when each role of a playbook ends, from what Ansible prints: a line as each task begins."""
    role = _FIRST_ROLE
    for line in printed:
        sys.stderr.write(line)
        found = _TASK.match(line)
        if found and found[1] and found[1] != role:
            measuring.done(role)
            role = found[1]
    measuring.done(role)


def _close(sockets: Path) -> None:
    """End the connections that Ansible keeps open."""
    for socket in sockets.glob("*") if sockets.exists() else ():
        command = ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "machine"]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
