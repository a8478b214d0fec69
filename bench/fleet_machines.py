"""Run `paddock` with machines that answer from memory. The arguments are FOLDER VERB ….

The machines of the memory runtime have no ssh server. Everything else is Paddock's own: the file, the requests to the
node, the plan, the output. FOLDER has `seen.pickle`, with what each machine reports. The run writes `used.json` there.
"""

from __future__ import annotations

import json
import pickle
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from paddock.base.process import Result
from paddock.plan.agent import AgentSeen

ROUND_TRIP: Final = 0.02  # seconds for a question to a machine, as for a request to the node
_HEALTHY: Final = json.dumps({"status": 200, "body": {"status": "ok"}, "open": True})


class Guest:
    """A channel to a machine on which every program succeeds, and every question for the health is answered well."""

    def __init__(self, name: str, address: str, **_: Any) -> None:
        self.name = name

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", deadline: float = 60.0) -> Result:
        """Answer after a round trip."""
        time.sleep(ROUND_TRIP)
        return Result(tuple(argv), 0, _answer(argv), "", ROUND_TRIP)


def _answer(argv: Sequence[str]) -> str:
    """Return what a machine prints: the answer to a request, its new host key, or a report with the version."""
    if argv[0] == "python3":
        return _HEALTHY
    exchanges = argv[-1] in ("stage", "switch")
    return f"ssh-ed25519 {host_key('machine')}\n" if exchanges else "\0report=1\0version=0.19.0\0end=ok\0"


class Connection:
    """A connection for several programs, which a machine in memory does not need."""

    control: Final = Path("none")
    is_open: Final = True

    @classmethod
    def opened(cls, _guest: Guest) -> Connection:
        """Return at once."""
        return cls()

    def close(self) -> None:
        """Do nothing."""


class Machines:
    """What Paddock reads and does on machines. ``seen`` has what each machine reports, by the name of its agent."""

    def __init__(self, seen: dict[str, AgentSeen]) -> None:
        self._seen = seen

    def look(self, agent: Any, guest: Guest, patience: float = 0.0) -> AgentSeen:
        """Report the agent as it was deployed."""
        time.sleep(ROUND_TRIP)
        return self._seen[agent.name]

    def is_healthy(self, agent: Any, seen: Any) -> bool:
        """Say yes after a round trip."""
        time.sleep(ROUND_TRIP)
        return True

    def perform(self, agent: Any, action: Any, seen: Any, reach: Callable[[], Guest]) -> None:
        """Do nothing: what a machine reports afterwards is known."""


def host_key(whose: str) -> str:
    """Return a valid base64 part of an ssh host key."""
    return f"AAAAC3NzaC1lZDI1NTE5AAAAI{whose:A<43}"


def run_paddock(folder: Path, argv: Sequence[str]) -> int:
    """Run a verb and write down its seconds and its memory; return its exit code."""
    from paddock import cli

    seen = pickle.loads((folder / "seen.pickle").read_bytes())  # noqa: S301 - written by this benchmark
    sys.argv = ["paddock", *argv]
    code = 0
    try:
        with (
            patch("paddock.places.proxmox.machine.reach.SshGuest", Guest),
            patch("paddock.places.proxmox.machine.reach.SharedConnection", Connection),
            patch("paddock.core.on_machine.OnMachine", lambda: Machines(seen)),
        ):
            cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    used = resource.getrusage(resource.RUSAGE_SELF)
    (folder / "used.json").write_text(
        json.dumps({"memory": used.ru_maxrss << 10, "cpu": used.ru_utime + used.ru_stime})
    )
    return code


def main() -> None:
    """Run the verb of the arguments, and exit with its code."""
    sys.exit(run_paddock(Path(sys.argv[1]), sys.argv[2:]))
