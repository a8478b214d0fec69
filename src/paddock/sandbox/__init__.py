"""A Proxmox VE node in a box: its REST API, with real or imagined containers behind it."""

from __future__ import annotations

from .command import main
from .probe import unable_to_run

__all__ = ["main", "unable_to_run"]
