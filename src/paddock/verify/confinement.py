"""Checks of the agent's confinement: what the kernel reports, sockets of engines, limits, and logins to its account."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from paddock.base.text import one_line
from paddock.kinds.checks import Attempt, Check
from paddock.kinds.workload import Verdict
from paddock.runtimes.contract import Isolation
from paddock.verify.line import Line, Outcome, Subject

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


_CONNECT: Final = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"


def checks(sockets: Sequence[str]) -> Iterator[Check]:
    """Yield a check that the agent can use each socket. Its evidence names the risk."""
    for path in sockets:
        attempt = Attempt(("python3", "-I", "-c", _CONNECT, path))
        hint = "the socket needs a group other than root: see docs/containers.md; or remove it from container.volumes"
        yield Check("isolation.socket", attempt, partial(_usable, path), hint)


def _usable(path: str, done: Mapping[str, Any]) -> Verdict:
    if done["code"] == 0:
        return Verdict(True, f"the agent can use {path}: with it, it can become root on the machine")
    return Verdict(False, f"the agent cannot use {path}: {str(done['err']).strip().rpartition('Error: ')[2]}")


def outside_lines(subject: Subject, fact: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Line]:
    """Check that the agent's account runs nothing outside the agent's units. Nobody else uses the account."""
    if not subject.account:
        return
    found = [one_line(str(each))[:100] for each in fact["found"]]
    evidence = f"processes of {subject.account} outside the agent's units: {', '.join(found[:5])}"
    hint = f"the agent has left its confinement, look at its memory; `paddock down --only {subject.agent}` ends them"
    yield Line.of("isolation.outside", not found, evidence if found else "no process of the agent is elsewhere", hint)


_LIMITS: Final = "machine.limits"
_SLACK: Final = 1.01  # the kernel rounds to pages, systemd to thousandths


def limits_lines(subject: Subject, fact: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Line]:
    """Check the limits that the file asks for. Without any, report that the units may use most of the memory."""
    if not subject.limits_units:
        return
    found = list(fact["found"].values())
    if not found:
        yield Line(_LIMITS, Outcome.UNAVAILABLE, "no process of the agent runs")
        return
    memories, cores = ([each[name] for each in found] for name in ("memory", "cores"))
    ignored = [
        f"machine.{name}"
        for name, wanted, seen in (("memory", subject.unit_memory, memories), ("cores", subject.unit_cores, cores))
        if wanted and not all(each is not None and each <= wanted * _SLACK for each in seen)
    ]
    if ignored:
        hint = "its systemd may have no such controller of cgroups: then remove the key; else `paddock restart` helps"
        evidence = f"the kernel does not limit the agent's units to {' and '.join(ignored)}"
        yield Line.of(_LIMITS, False, evidence, hint, fact["seconds"])
    elif any(each is None for each in memories):
        evidence = "the memory of the units is not limited; the next change of the agent limits it, if the machine can"
        yield Line(_LIMITS, Outcome.UNAVAILABLE, evidence)
    else:
        more = f" and {max(cores):g} cores" if subject.unit_cores else ""
        evidence = f"each unit uses at most {max(memories) >> 20}M of memory{more}"
        yield Line.of(_LIMITS, True, evidence, seconds=fact["seconds"])


_LOGIN: Final = "isolation.login"
_UNCONFINED: Final = "whoever logs in to it runs programs as the agent, without its confinement"
_NO_SHELLS: Final = ("/nologin", "/false")


def login_lines(subject: Subject, fact: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Line]:
    """Check that sshd refuses the account, and that it has expired. A person's own account is only reported."""
    found, seconds = fact["found"], fact["seconds"]
    if not subject.account:
        evidence = f"the agent has no account of its own, and Paddock does not change yours: {_UNCONFINED}"
        yield Line(_LOGIN, Outcome.UNAVAILABLE, evidence)
        return
    if found is None:
        yield Line.of(_LOGIN, False, f"there is no account {subject.account} on the machine", "run `paddock up`")
        return
    ways = list(_ways_in(found))
    if not found["made"]:
        yield _of_a_person(found, ways, subject.paths.home)
        return
    tried = found["attempt"]
    if tried.get("accepted"):
        ways.insert(0, f"sshd let {found['name']} in with a key")
    hint = (
        f"others can run programs as the agent, without its confinement: `paddock up --only {subject.agent}` closes it"
    )
    evidence = f"the account {found['name']} has expired and has no shell; {_said(tried)}"
    yield Line.of(_LOGIN, not ways, one_line("; ".join(ways)) if ways else one_line(evidence), hint, seconds)


def _ways_in(found: Mapping[str, Any]) -> Iterator[str]:
    if not found["shell"].endswith(_NO_SHELLS):
        yield f"its shell is {found['shell'] or '/bin/sh'}"
    if not found["expired"]:
        yield "it has not expired"
    if found["lingers"]:
        yield "it lingers"


def _said(tried: Mapping[str, Any]) -> str:
    if "missing" in tried:
        return f"no login was tried: {tried['missing']}"
    return f"sshd refused a key: {tried['said']}" if tried["answered"] else f"sshd did not answer: {tried['said']}"


def _of_a_person(found: Mapping[str, Any], ways: list[str], home: str) -> Line:
    """Return a line about an account that Paddock did not make, and therefore does not change."""
    name = found["name"]
    if not ways:
        return Line(_LOGIN, Outcome.OK, f"the account {name} has expired and has no shell")
    keys = "the agent can write ~/.ssh/authorized_keys there, and " if found["home"] == home else ""
    evidence = f"Paddock did not make the account {name}, so it stays as it is ({', '.join(ways)}): {keys}{_UNCONFINED}"
    hint = f"if nobody else uses it, run as root: usermod --expiredate 1 --shell /usr/sbin/nologin {name}"
    return Line(_LOGIN, Outcome.UNAVAILABLE, one_line(evidence), hint)
