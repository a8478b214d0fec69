"""Checks of the agent's confinement, from what the kernel reports about its processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from paddock.checks.line import Line, Outcome
from paddock.checks.subject import Subject
from paddock.runtimes.isolation import Isolation

_NOTHING: Final = "0000000000000000"
_HINT: Final = "the agent's units or machine were changed: run `paddock up`, and if that does not help, `paddock cycle`"

# Whether the process is confined in this way, with the evidence; None if the kernel does not report it.
_Seen = tuple[bool, str] | None


def _capabilities(process: Mapping[str, Any]) -> _Seen:
    effective, bounding = process["effective"], process["bounding"]
    if effective is None or bounding is None:
        return None
    if effective == bounding == _NOTHING:
        return True, "the agent has no capabilities and cannot gain any"
    return False, f"effective {effective}, bounding {bounding}"


def _privileges(process: Mapping[str, Any]) -> _Seen:
    value = process["no_new_privileges"]
    return None if value is None else (value == "1", f"NoNewPrivs is {value}")


def _system_calls(process: Mapping[str, Any]) -> _Seen:
    value = process["seccomp"]
    return None if value is None else (value == "2", "filtered" if value == "2" else f"Seccomp is {value}")


def _proc(process: Mapping[str, Any]) -> _Seen:
    options = process["mounts"].get("/proc")
    if options is None:
        return None
    hidden = process["own_pid_namespace"] or "hidepid=invisible" in options or "hidepid=2" in options
    return hidden, "the agent sees only its own processes" if hidden else "the agent sees processes of others"


def _sys(process: Mapping[str, Any]) -> _Seen:
    shown = {path: "ro" in options.split(",") for path, options in process["mounts"].items() if path != "/proc"}
    if not shown:
        return None
    open_to_it = [path for path in ("/proc/sys", "/sys") if not shown.get(path)]
    return not open_to_it, f"writable: {', '.join(open_to_it)}" if open_to_it else "read-only"


_SEEN: Final[Mapping[Isolation, Callable[[Mapping[str, Any]], _Seen]]] = {
    Isolation.CAPABILITIES: _capabilities,
    Isolation.PRIVILEGES: _privileges,
    Isolation.SYSTEM_CALLS: _system_calls,
    Isolation.PROC: _proc,
    Isolation.SYS: _sys,
}


def lines(subject: Subject, fact: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Line]:
    """Yield a line for each kind of isolation. With several processes, the least confined one counts."""
    processes = list(fact["found"].values())
    if not processes:
        yield Line("isolation", Outcome.UNAVAILABLE, "no process of the agent runs")
        return
    yield _user(subject, processes)
    for way, seen in _SEEN.items():
        name = f"isolation.{way}"
        if way not in subject.confined:
            yield Line(name, Outcome.UNAVAILABLE, "this runtime does not provide this isolation")
            continue
        if way in facts.get("dropped", ()):
            yield Line(name, Outcome.UNAVAILABLE, "this machine does not support this isolation")
            continue
        yield _worst(name, [seen(process) for process in processes])
    yield _worst("isolation.apparmor", [_apparmor(subject, process) for process in processes])


def _user(subject: Subject, processes: list[Mapping[str, Any]]) -> Line:
    """Check that the agent is not root, and that root of a machine made for it is not root of the node."""
    if Isolation.ACCOUNT not in subject.confined:
        return Line("isolation.user", Outcome.UNAVAILABLE, "the agent has no account of its own")
    for process in processes:
        inside, outside, _ = process["uid_map"][:3]
        uid = process["uid"][0]
        if uid == "0":
            return Line.of("isolation.user", False, "a process of the agent runs as root", _HINT)
        if subject.own_machine and inside == outside:
            hint = "the LXC container is privileged: `paddock cycle` replaces it with an unprivileged one"
            return Line.of("isolation.user", False, "root of the machine is root of the node", hint)
    mapped = f"root of the machine is user {outside} on the node" if inside != outside else "not root"
    return Line.of("isolation.user", True, f"user {uid}; {mapped}")


def _apparmor(subject: Subject, process: Mapping[str, Any]) -> _Seen:
    if not process["apparmor_enabled"]:
        return None
    label = process["apparmor"]
    confined = bool(label) and label != "unconfined"
    if not confined and not subject.own_machine:
        return None  # profiles on a machine that Paddock did not make are its owner's decision
    return confined, label or "unconfined"


def _worst(name: str, seen: list[_Seen]) -> Line:
    known = [each for each in seen if each is not None]
    if not known:
        return Line(name, Outcome.UNAVAILABLE, "this kernel does not support or report this isolation")
    ok, evidence = min(known, key=lambda each: each[0])
    return Line.of(name, ok, evidence, _HINT)
