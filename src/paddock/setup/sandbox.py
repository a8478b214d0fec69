"""A node in a box: start a simulated Proxmox node with a stand-in model, and answer the questions with it."""

from __future__ import annotations

import socket
import sys
from typing import Any, Final

from paddock.base import bounded, process
from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.secret import Secret
from paddock.base.text import visible
from paddock.places.proxmox.api import tls
from paddock.setup.answers import Model, OnNode
from paddock.setup.keys import SshKey, Vault
from paddock.setup.node import Access, choose_on
from paddock.setup.questions import Conversation

REMOVE: Final = "paddock sandbox clean"
_PORT: Final = 8006
_FIRST_START: Final = 900.0  # seconds; the first one builds a Debian template
_PROVIDER, _VARIABLE = "standin", "STANDIN_KEY"
_CONTEXT: Final = 131072


@frozen
class Box:
    """A running sandbox, as its ready line describes it."""

    ready: dict[str, Any]

    def place(self, talk: Conversation, secrets: Vault) -> tuple[OnNode, SshKey]:
        """Return the sandbox as a place of the file."""
        name, secret = next(iter(self.ready["tokens"].items()))
        token = Secret(f"{name}={secret}")
        # The sandbox runs in this account on this machine, so nobody has to confirm its certificate.
        fingerprint = tls.presented(self.ready["url"]).fingerprint
        source = secrets.keep("PVE_TOKEN", token)
        return choose_on(talk, Access(self.ready["url"], fingerprint, token, source))

    def model(self, secrets: Vault) -> Model:
        """Return the stand-in model of the sandbox."""
        served = self.ready["model"]
        source = secrets.keep(_VARIABLE, Secret(served["key"]))
        return Model(_PROVIDER, served["name"], served["url"], _VARIABLE, source, _CONTEXT)


def start(talk: Conversation) -> Box:
    """Start the sandbox of this account in the background, or find it running."""
    if not _pvebox("status").ok:
        _require_containers()
        talk.tell("Starting a simulated Proxmox node on this machine, with real LXC containers …")
        talk.tell("The first start builds a Debian template, which takes some minutes.")
    ended = _pvebox("up", "--port", str(_free_port()), "--mmp-wait", "0", "--model", deadline=_FIRST_START)
    if not ended.ok:
        raise PaddockError(f"the sandbox did not start: {_last(ended.err)}", hint="`paddock sandbox logs` may say more")
    ready = bounded.parsed(ended.out.strip().rpartition("\n")[2])
    if "model" not in ready:
        raise PaddockError(
            "a sandbox without a model runs already", hint=f"remove it with `{REMOVE}`, and run the command again"
        )
    talk.tell(f"The sandbox answers at {ready['url']}.")
    return Box(ready)


def _require_containers() -> None:
    probed = _pvebox("probe")
    if not probed.ok:
        raise PaddockError(
            f"no sandbox can run here: {_last(probed.out or probed.err)}",
            hint="`paddock init` also works with a Proxmox node, or with a Linux host: this machine is `--host here`",
        )


def _free_port() -> int:
    """Return the port of Proxmox, or another one if that is taken."""
    for port in (_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise PaddockError("no port is free on this machine")


def _pvebox(*words: str, deadline: float = 60.0) -> process.Result:
    """Run a command of the sandbox, which is another package that Paddock does not import.

    Its ready line has secrets, which the mask does not know yet: the result must not be printed.
    """
    return process.run([sys.executable, "-m", "pvebox", *words], deadline=deadline)


def _last(printed: str) -> str:
    lines = [line for line in visible(printed).strip().split("\n") if line]
    return " ".join(lines[-2:]) if lines else "it printed no reason"
