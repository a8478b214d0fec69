"""The HA daemons: they start and stop containers some seconds after the task of the request has ended."""

from __future__ import annotations

import threading
from collections import defaultdict

from pvebox.access.accounts import ROOT
from pvebox.cluster.cluster import Cluster
from pvebox.cluster.tasks import Task
from pvebox.guests.lifecycle import begin_start

_SHUTDOWN_SECONDS = 60


class HaManager:
    """Carries out requests to start and stop containers, each after a delay, as Proxmox's CRM and LRM do.

    An accepted request is carried out even if a later request contradicts it, so a late stop can end a container that
    was started again. Containers are never moved to another node.
    """

    def __init__(self, cluster: Cluster, delay: float) -> None:
        self._cluster = cluster
        self._delay = delay
        self._queued: defaultdict[int, list[str]] = defaultdict(list)
        self._lock = threading.Lock()

    def queue(self, vmid: int, verb: str) -> None:
        """Accept a request: `start` or `stop`."""
        with self._lock:
            self._queued[vmid].append(verb)
        later = threading.Timer(self._delay, self._carry_out, (vmid, verb))
        later.daemon = True
        later.start()

    def state_of(self, vmid: int) -> str | None:
        """Return the state of a container's HA service: its queued request, or else its configured state."""
        with self._lock:
            queued = self._queued[vmid]
            if queued:
                return f"request_{queued[0]}"
        resource = self._cluster.ha.resources.get(f"ct:{vmid}")
        return str(resource.get("state", "started")) if resource is not None else None

    def _carry_out(self, vmid: int, verb: str) -> None:
        cluster, node = self._cluster, self._cluster.configs.node_of(vmid)
        running = cluster.runtime.containers.running(vmid)
        try:
            if node is None:
                return
            if verb == "start" and not running:
                cluster.tasks.wait(begin_start(cluster, vmid, node, ROOT), 60)
            if verb == "stop" and running:
                cluster.tasks.wait(cluster.tasks.start(node, "vzshutdown", str(vmid), ROOT, self._shut_down), 60)
            if verb == "stop" and cluster.ha.manages(vmid):
                cluster.ha.put_resource(f"ct:{vmid}", {**cluster.ha.resources[f"ct:{vmid}"], "state": "stopped"})
        finally:
            with self._lock:
                self._queued[vmid].remove(verb)

    def _shut_down(self, task: Task) -> None:
        vmid = int(task.upid.id)
        with self._cluster.configs.lock(vmid, task.say):
            containers = self._cluster.runtime.containers
            if containers.running(vmid) and not containers.shutdown(vmid, _SHUTDOWN_SECONDS):
                containers.stop(vmid)
