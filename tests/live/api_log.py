"""What went over the wire to a node, from its own records."""

from __future__ import annotations

import json
import re
from pathlib import Path

from live.node import Node

_WRITING = re.compile(r'"(?:POST|PUT|DELETE) /api2/json(/\S*) HTTP')
_CONTAINERS = re.compile(r"/nodes/[^/]+/lxc(?:/(\d+)\S*)?")


class ApiLog:
    """The requests that change something, from now on."""

    def __init__(self, node: Node) -> None:
        state = node.stage.folder / "sandbox"
        self._since = {path: path.stat().st_size for path in (state / "access.log", state / "tasks.jsonl")}

    def changed_containers(self) -> set[int]:
        """The containers that they name; there are none about anything else."""
        asked, tasks = self._since
        paths = [_CONTAINERS.fullmatch(path) for path in _WRITING.findall(self._new(asked))]
        assert all(paths), paths
        # One that is made is named in the body, and in the name of its task.
        began = [json.loads(line)["upid"].split(":")[6] for line in self._new(tasks).splitlines()]
        return {int(number) for number in [*(path[1] for path in paths if path), *began] if number}

    def _new(self, record: Path) -> str:
        return record.read_bytes()[self._since[record] :].decode()
