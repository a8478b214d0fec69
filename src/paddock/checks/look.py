"""Collect facts about an agent with one program on its machine, in one round trip."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final
from urllib.parse import urlsplit

from paddock import bounded
from paddock.checks.asked import ANSWER
from paddock.checks.subject import Subject
from paddock.errors import PaddockError
from paddock.frozen import frozen
from paddock.guests import Guest, expect
from paddock.recipes.checks import Attempt, Connect, Databases, LogLines, ReadFile, WriteInto
from paddock.recipes.workload import OpenPort, Request
from paddock.runtimes.isolation import Isolation
from paddock.runtimes.program import on_demand

# Folders that are searched for secrets after the others, because an agent can fill them with files, and the search ends
# after some seconds.
_OPEN_FOLDERS: Final = ("/run", "/tmp", "/var/tmp")  # noqa: S108
SECONDS: Final = 150
_LOOPBACK: Final = "paddock.runtimes.loopback"
INSIDE: Final = "paddock.checks.inside"
MACHINE: Final = "paddock.checks.machine.main"
_KINDS: Final[Mapping[type, str]] = {
    Request: "request",
    ReadFile: "file",
    Databases: "databases",
    Attempt: "attempt",
    OpenPort: "port",
    WriteInto: "write",
    Connect: "connect",
    LogLines: "log",
}


@frozen
class RuntimeArgvs:
    """The argvs of the agent's runtime that the program on the machine runs."""

    inspect: Sequence[str]
    enter: Sequence[str]  # ends with Python's -c; runs a program beside the agent
    logs: Sequence[str]


def look(
    guest: Guest, subject: Subject, argvs: RuntimeArgvs, *, quick: bool, health: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the facts about the agent; with ``quick``, only those that a quick verification needs.

    With ``health``, a question that the agent answers once it is healthy, it is asked first. The fact ``health`` is the
    reply. It is the only fact if the reply is not the wanted one.
    """
    argv = ["python3", "-I", "-S", "-c", machine_program()]
    asked = question(subject, argvs, quick=quick, health=health)
    deadline = SECONDS + (health["patience"] if health else 0)
    found = facts(expect(guest, "looking at the agent", argv, stdin=asked, deadline=deadline))
    if found is None:
        raise PaddockError(f"the program of verify on {guest.name} printed no facts")
    return found


def machine_program() -> str:
    """Return the Python program that reads a question on the machine and prints facts."""
    return on_demand(MACHINE)


def facts(printed: str) -> dict[str, Any] | None:
    """Return the facts that the program printed; None if it printed something else."""
    try:
        return dict(bounded.parsed(printed))
    except (ValueError, TypeError):
        return None


def question(
    subject: Subject,
    argvs: RuntimeArgvs,
    *,
    quick: bool,
    only_running: bool = False,
    health: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the question for the program. With ``only_running``, it prints nothing unless the agent is running."""
    paths, own = subject.paths, f"{subject.paths.state}/.paddock"
    asked = {
        "all": not quick,
        "only_running": only_running,
        "health": health,
        "supervisor": list(argvs.inspect),
        "processes": list(subject.processes),
        "lease_file": f"{own}/lease",
        "holder_file": f"{own}/holder",
        "folders": [paths.state, own, paths.home],
        "etc": paths.etc,
        "files": sorted(subject.files),
        "tree": subject.tree,
        "account": subject.account,
        "ports": sorted({*subject.ports, *subject.health_port}),
        "alone": Isolation.ACCOUNT in subject.confined,
        "env_files": [f"{subject.root}/secrets.env", f"{subject.root}/generated.env"],
        "own_machine": subject.own_machine,
        "search": ["/etc", *(["/"] if subject.own_machine else []), *_OPEN_FOLDERS, paths.state, subject.root],
        "skip": [paths.code],  # `files.code` compares it
        "logs": list(argvs.logs),
        "inside": {
            "argv": list(argvs.enter),
            "program": on_demand(INSIDE),
            "load": [] if quick else [_LOOPBACK],  # before it gets the questions
            "questions": [
                {
                    "kind": _KINDS[type(check.question)],
                    "first": check.name == ANSWER,
                    "own": isinstance(check.question, Request) and urlsplit(check.question.url).port in subject.ports,
                    **asdict(check.question),
                }
                for check in subject.questions(quick=quick)
            ],
        },
    }
    return json.dumps(asked).encode()
