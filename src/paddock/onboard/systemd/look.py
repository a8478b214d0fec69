"""Report the units of an agent: their condition, how their processes ended, and the confinement that was dropped."""

from __future__ import annotations

import os
import re
import time

from paddock.onboard.agent import Agent
from paddock.onboard.engine.containers import inspect
from paddock.onboard.files import lines, text
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.programs import run
from paddock.onboard.systemd.manager import Manager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paddock.onboard.program.serve import Payload

_LONG_AGO = 60  # seconds after which a restart does not count
_LONGEST_MESSAGE = 500
_PROPERTIES = (
    "ActiveState",
    "SubState",
    "NRestarts",
    "ExecMainCode",
    "ExecMainStatus",
    "ActiveEnterTimestampMonotonic",
)
_ENDED = re.compile(r"Main process exited, code=([a-z]*), status=([0-9]*)")
_DROPPED = {
    "CapabilityBoundingSet": "capabilities",
    "NoNewPrivileges": "privileges",
    "SystemCallFilter": "system_calls",
    "ProtectProc": "proc",
    "ProtectKernelTunables": "sys",
}


def units(agent: Agent) -> dict[str, Any]:
    """Return what is known of the units of an agent, and of those that it has under former ids."""
    manager = Manager(agent.manager)
    formers = {former: manager.units_of(agent.root_of(former)) for former in agent.formers}
    own = manager.units_of(agent.root)
    shown = manager.shown([*own, *(unit for found in formers.values() for unit in found)], *_PROPERTIES)
    said = [_message(manager, unit) for unit in own if _has_failed(shown[unit])]
    return {
        "units": {unit: shown[unit]["ActiveState"] for unit in own},
        "ends": {unit: found for unit in own if (found := _ends(manager, unit, shown[unit]))},
        "said": said[-1] if said else "",
        "formers": {
            former: {unit: shown[unit]["ActiveState"] for unit in found} for former, found in formers.items() if found
        },
        "notes": [*_relaxed(agent), *(_of_account(agent) if manager.is_user else ())],
        "system": "nixos" if not manager.is_user and _is_nixos() else "",
        "init": _init_of_account(manager) if manager.is_user else "",
    }


def _has_failed(shown: dict[str, str]) -> bool:
    """Whether a unit has failed, was restarted after a failure, or is about to be restarted."""
    return shown["SubState"] in ("failed", "auto-restart") or shown["NRestarts"] not in ("", "0")


def _message(manager: Manager, unit: str) -> str:
    """Return the last message of a unit for Paddock, or its last error."""
    told = [line for line in manager.journal(unit, 30) if line.startswith("paddock: ") or "error" in line.lower()]
    return told[-1].removeprefix("paddock: ")[:_LONGEST_MESSAGE] if told else ""


def _ends(manager: Manager, unit: str, shown: dict[str, str]) -> dict[str, Any] | None:
    """Return how often a unit was restarted that ends again and again, or has failed, and how it ended last."""
    if unit.endswith((".lease.service", ".egress.service")):
        return None  # they end and start again while the agent has to wait
    restarts = int(shown["NRestarts"] or 0)
    code, status = shown["ExecMainCode"], shown["ExecMainStatus"]
    if not shown["SubState"].startswith(("failed", "auto-restart")):
        if not restarts or time.time() - since(shown["ActiveEnterTimestampMonotonic"]) >= _LONG_AGO:
            return None
        # The next process runs, so systemd has forgotten how the last one ended.
        ended = [match for line in manager.journal(unit, 100) if (match := _ENDED.search(line))]
        code, status = ended[-1].groups() if ended else ("", "")
    how = {
        "1": "exit code",
        "exited": "exit code",
        "2": "signal",
        "3": "signal",
        "killed": "signal",
        "dumped": "signal",
    }
    return {"restarts": restarts, "how": f"{how[code]} {status}" if code in how else ""}


def since(monotonic: str) -> float:
    """Return the time of a moment that systemd counts in microseconds since the machine was started."""
    return time.time() - time.monotonic() + int(monotonic or 0) / 1e6


def _relaxed(agent: Agent) -> list[str]:
    dropped = [line.partition("=")[0] for line in lines(f"{agent.root}/relaxed.conf") if "=" in line]
    return [f"this machine does not support all confinement; dropped: {' '.join(dropped)}"] if dropped else []


def _is_nixos() -> bool:
    return os.path.exists("/etc/NIXOS") or bool(re.search(r'(?m)^ID="?nixos"?$', text("/etc/os-release")))


def _init_of_account(manager: Manager) -> str:
    return "systemd --user" if manager.run("show-environment").ok else "no manager for this account"


def _of_account(agent: Agent) -> list[str]:
    import pwd

    account = pwd.getpwuid(os.getuid()).pw_name
    if run(["loginctl", "show-user", account, "--property", "Linger", "--value"]).out.strip() == "yes":
        return []
    keeps = f"sudo loginctl enable-linger {account}"
    return [f"{agent.name} ends when its account logs out; this keeps it running: {keeps}"]


@frozen
class Inspect:
    """Report the processes of an agent, the lease among them, and the kinds of isolation that were dropped."""

    agent: Agent
    engine: str = ""
    container: str = ""

    def perform(self, _: Payload) -> dict[str, Any]:
        return inspected(self)


def inspected(asked: Inspect) -> dict[str, Any]:
    """Return the processes by their names, with state, pid, restarts, and when they were started."""
    if not asked.agent.manager:
        return {"processes": dict(_of_terminal(asked.agent)), "dropped": []}
    manager = Manager(asked.agent.manager)
    own = manager.units_of(asked.agent.root)
    shown = manager.shown(own, "MainPID", "NRestarts", "ActiveState", "ActiveEnterTimestampMonotonic")
    processes = {
        unit.removeprefix(f"paddock-{asked.agent.id}.").removesuffix(".service"): {
            "state": found["ActiveState"] or "unknown",
            "pid": int(found["MainPID"] or 0),
            "restarts": int(found["NRestarts"] or 0),
            "since": since(found["ActiveEnterTimestampMonotonic"]),
        }
        for unit, found in shown.items()
    }
    if asked.engine and "container" in processes:
        # The unit's own process only waits for the container.
        found = inspect(asked.engine, asked.container)
        if found:
            processes["container"]["pid"] = found[asked.container].pid
    relaxed = [line.partition("=")[0] for line in lines(f"{asked.agent.root}/relaxed.conf")]
    return {"processes": processes, "dropped": [_DROPPED[each] for each in relaxed if each in _DROPPED]}


def _of_terminal(agent: Agent) -> Any:
    """Yield what `paddock run` has started."""
    for line in lines(f"{agent.root}/running"):
        name, pid, restarts, started = line.split()
        state = "active" if pid != "0" and os.path.exists(f"/proc/{pid}") else "ended"
        yield name, {"state": state, "pid": int(pid), "restarts": int(restarts), "since": float(started)}
