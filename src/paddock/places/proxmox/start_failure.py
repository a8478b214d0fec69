"""Why a container did not start, from the log of its task: Proxmox's last line only says that it failed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_GENERAL: Final = re.compile(r"startup for container '\d+' failed$")
# What LXC prints after the line that counts, and what Proxmox prints around it.
_NO_REASON: Final = re.compile(r"lxc_init: |__lxc_start: |TASK |trying to acquire lock|\s*OK$|no content$|\s*$")
_HOOK: Final = re.compile(r"Script exited with status (\d+)")
_BRIDGE: Final = re.compile(r"bridge '[^']*' does not exist")
_MEANINGS: Final = {
    2: "something that it mounts does not exist",
    24: "too many files are open on the node; fs.inotify.max_user_instances may be too small",
    32: "a volume could not be mounted: it is in use, or its filesystem is damaged",
}


def reason(outcome: str, log: Iterable[str]) -> str:
    """Return the line that says why, with what an exit status of the mounts means."""
    if not _GENERAL.search(outcome):
        return outcome
    line = next((line.strip() for line in log if not _NO_REASON.match(line) and not _GENERAL.search(line)), outcome)
    code = _HOOK.search(line)
    meaning = _MEANINGS.get(int(code[1])) if code else None
    return f"{line} ({meaning})" if meaning else line


def is_for_want_of_a_bridge(outcome: str) -> bool:
    """Whether the node has no bridge of the name in the configuration."""
    return bool(_BRIDGE.search(outcome))
