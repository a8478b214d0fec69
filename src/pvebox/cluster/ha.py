"""High availability: the configured resources and rules.

The daemons that act on them (Proxmox's CRM and LRM) do not run unless `manager` is set. Without them a request is
accepted and stays queued, as on a cluster whose HA daemons are stopped.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from pvebox.cluster.harules import RULE_TYPES, Section, resources_of


class Manager(Protocol):
    """The daemons that carry requests out."""

    def queue(self, vmid: int, verb: str) -> None:
        """Accept a request to start or stop a container."""
        ...

    def state_of(self, vmid: int) -> str | None:
        """Return the state of a container's HA service."""
        ...


class HaStore:
    """The HA resources by their id (`ct:100`) and the HA rules by name, saved in Proxmox's file format."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.RLock()
        self.resources: dict[str, Section] = {}
        self.rules: dict[str, Section] = {}
        self.manager: Manager | None = None
        # Called with the path of a file before it is written. Raises if the cluster's filesystem is read-only.
        self.require_writable: Callable[[str], None] = lambda path: None
        for name in ("resources", "rules"):
            file = directory / f"{name}.cfg"
            if file.exists():
                self._parse(file.read_text(encoding="utf-8").split("\n"))

    def load(self, lines: Iterable[str]) -> None:
        """Replace all resources and rules by the content of Proxmox's files, given as lines."""
        self.resources.clear()
        self.rules.clear()
        self._parse(lines)
        self._save()

    def lines(self) -> list[str]:
        """Return all resources and rules as lines of Proxmox's files."""
        return [line for text in self._texts().values() for line in text.split("\n") if line]

    def manages(self, vmid: int) -> bool:
        """Return whether requests to start, stop or migrate a container go to the HA manager."""
        found = self.resources.get(f"ct:{vmid}")
        return found is not None and found.get("state") != "ignored"

    def state_of(self, vmid: int) -> str | None:
        """Return the state of a container's HA service; None without daemons that know it."""
        return self.manager.state_of(vmid) if self.manager is not None and self.manages(vmid) else None

    def digest(self, name: str) -> str:
        """Return the SHA-1 of the text of a file: `resources` or `rules`."""
        return hashlib.sha1(self._texts()[name].encode(), usedforsecurity=False).hexdigest()

    def put_resource(self, sid: str, section: Section) -> None:
        """Add or replace a resource."""
        with self._lock:
            self.resources[sid] = section
            self._save()

    def remove_resource(self, sid: str, *, purge: bool = True) -> None:
        """Remove a resource and, with `purge`, take it out of the rules. A rule without resources is removed."""
        with self._lock:
            self.resources.pop(sid, None)
            for rule, section in list(self.rules.items()) if purge else ():
                left = [other for other in resources_of(section) if other != sid]
                section["resources"] = ",".join(left)
                if not left:
                    del self.rules[rule]
            self._save()

    def put_rule(self, rule: str, section: Section) -> None:
        """Add or replace a rule."""
        with self._lock:
            self.rules[rule] = section
            self._save()

    def remove_rule(self, rule: str) -> None:
        """Remove a rule if it exists."""
        with self._lock:
            self.rules.pop(rule, None)
            self._save()

    def _parse(self, lines: Iterable[str]) -> None:
        section: Section = {}
        for line in lines:
            if not line.strip():
                continue
            if not line.startswith(("\t", " ")):
                kind, _, name = line.partition(":")
                section = {"type": kind}
                name = name.strip()
                if kind in RULE_TYPES:
                    self.rules[name] = section
                else:
                    self.resources[f"{kind}:{name}"] = section
                continue
            key, _, value = line.strip().partition(" ")
            section[key] = value

    def _texts(self) -> dict[str, str]:
        named = [(sid.partition(":")[2], section) for sid, section in self.resources.items()]
        return {
            "resources": "".join(_section_text(name, section) for name, section in named),
            "rules": "".join(_section_text(name, section) for name, section in self.rules.items()),
        }

    def _save(self) -> None:
        self.require_writable("ha/resources.cfg")
        self._directory.mkdir(parents=True, exist_ok=True)
        for name, text in self._texts().items():
            temporary = self._directory / f"{name}.new"
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self._directory / f"{name}.cfg")


def _section_text(name: str, section: Section) -> str:
    body = "".join(f"\t{key} {section[key]}\n" for key in sorted(section) if key != "type")
    return f"{section['type']}: {name}\n{body}\n"
