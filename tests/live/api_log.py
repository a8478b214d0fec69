"""The requests that a node has received, from its access log and its list of tasks."""

from __future__ import annotations

import json
import re
from pathlib import Path

from live.node import Node

_WRITING = re.compile(r'"(?:POST|PUT|DELETE) /api2/json(/\S*) HTTP')
_CONTAINERS = re.compile(r"/nodes/[^/]+/lxc(?:/(\d+)\S*)?")


class ApiLog:
    """The writing requests since this object was created."""

    def __init__(self, node: Node) -> None:
        state = node.stage.folder / "sandbox"
        self._since = {path: path.stat().st_size for path in (state / "access.log", state / "tasks.jsonl")}

    def changed_containers(self) -> set[int]:
        """Return the vmids that the requests name, and assert that all requests are about containers."""
        asked, tasks = self._since
        paths = [_CONTAINERS.fullmatch(path) for path in _WRITING.findall(self._new(asked))]
        assert all(paths), paths
        # A request that creates a container has the vmid in its body; the name of its task has it too.
        began = [json.loads(line)["upid"].split(":")[6] for line in self._new(tasks).splitlines()]
        return {int(number) for number in [*(path[1] for path in paths if path), *began] if number}

    def _new(self, record: Path) -> str:
        return record.read_bytes()[self._since[record] :].decode()
