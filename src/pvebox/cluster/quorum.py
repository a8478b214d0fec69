"""The cluster's membership: nodes that are offline or silent, and what Proxmox refuses without quorum.

Proxmox keeps all configs in a cluster filesystem. Without a majority of the nodes it is read-only. Some methods check
that first; the others fail when they write a config or take a lock of the cluster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pvebox.api.errors import OperationError, UnreachableError

Log = Callable[..., None]


@dataclass
class Membership:
    """Which nodes are offline, and whether the others have quorum."""

    offline: set[str] = field(default_factory=set)
    # Nodes whose pvestatd has reported nothing for five minutes. It may hang while the node's API works.
    silent: set[str] = field(default_factory=set)
    quorate: bool = True

    def status(self, node: str) -> str:
        """Return the status of a node. Corosync tells `offline`; `unknown` only means that no figures are fresh."""
        if node in self.offline:
            return "offline"
        return "unknown" if node in self.silent else "online"

    def require_quorum(self) -> None:
        """Raise the error of the methods that check for quorum first."""
        if not self.quorate:
            raise OperationError("cluster not ready - no quorum?")

    def require_reachable(self, node: str) -> None:
        """Raise the error of a request that cannot be forwarded, because its node is offline."""
        if node in self.offline:
            raise UnreachableError

    def require_writable(self, path: str) -> None:
        """Raise the error of a write to the cluster's filesystem, which is read-only without quorum."""
        if not self.quorate:
            raise OperationError(f"unable to open file '/etc/pve/{path}.tmp.{os.getpid()}' - Permission denied")

    def require_lock(self, name: str, timeout: float, say: Log | None = None) -> None:
        """Raise the error of a lock of the cluster, after the time that Proxmox tries to take it."""
        if self.quorate:
            return
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if say is not None:
                say(f"trying to acquire cfs lock '{name}' ...")
            time.sleep(min(1.0, timeout))
        raise OperationError(f"cfs-lock '{name}' error: no quorum!")
