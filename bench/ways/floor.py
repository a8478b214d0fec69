"""The floor: clone, boot, agent start and first answer with plain requests, where everything is in the template.

The template is a machine as Paddock configured it: the same units, code, configuration and state. Its agent starts when
it boots. So no tool can be faster with this agent on this node, whatever it does.
"""

from __future__ import annotations

from typing import Final

from bench.ways.ground import NODE, Ground, ask, await_health, in_network_of
from bench.ways.meter import Measured

_VMID: Final = 9300


class Floor:
    """Clones a template that was made from the running machine of Paddock."""

    name: Final = "floor"

    def __init__(self, ground: Ground, vmid: int, key: str) -> None:
        """Turn a machine of Paddock into the template. Its state volume is detached and stays with its pet."""
        self._ground, self._api, self._key = ground, ground.api, key
        machine = f"{NODE}/lxc/{vmid}"
        config = self._api.ask("GET", f"{machine}/config")
        volume, *options = str(config["mp0"]).split(",")
        self._state = ",".join([volume, *(option for option in options if option.startswith("mp="))])
        self._api.task("POST", f"{machine}/status/shutdown", timeout=60)
        self._detach(vmid)
        # Without Paddock's mark, Paddock leaves it alone and creates a machine of its own.
        self._api.ask("PUT", f"{machine}/config", description="template of the floor", hostname="floor", delete="tags")
        self._api.seal(vmid)
        self._template = vmid

    def first(self) -> Measured:
        raise SystemExit("the floor has no first deployment: its template is made from Paddock's machine")

    def recreate(self) -> Measured:
        machine = f"{NODE}/lxc/{_VMID}"
        measuring = self._ground.meter.start(self.name)
        self._api.task("POST", f"{NODE}/lxc/{self._template}/clone", newid=_VMID)
        measuring.done("clone")
        self._api.ask("PUT", f"{machine}/config", mp0=self._state)
        self._api.task("POST", f"{machine}/status/start")
        measuring.done("start")

        def answered() -> None:
            await_health()
            measuring.done("boot and agent start")
            ask(self._key, "say ok")

        in_network_of(self._ground.pid(_VMID), answered)
        measuring.done("answer")
        return measuring.end()

    def remove(self) -> None:
        machine = f"{NODE}/lxc/{_VMID}"
        self._api.task("POST", f"{machine}/status/shutdown", timeout=60)
        self._detach(_VMID)
        self._api.task("DELETE", machine)

    def machine(self) -> tuple[int, str]:
        return _VMID, self._key

    def _detach(self, vmid: int) -> None:
        # Proxmox keeps a detached volume as unused0; it is not deleted, because another container owns it.
        for key in ("mp0", "unused0"):
            if key in self._api.ask("GET", f"{NODE}/lxc/{vmid}/config"):
                self._api.ask("PUT", f"{NODE}/lxc/{vmid}/config", delete=key)
