"""A simulated Proxmox VE cluster on this machine: the REST API, with real LXC or simulated containers."""

from __future__ import annotations

from pvebox.console.command import main
from pvebox.runtime.probe import unable_to_run

__all__ = ["main", "unable_to_run"]
