"""Looking at an agent on its machine: one program there, one round trip, and facts in return."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from paddock.checks.subject import Subject
from paddock.errors import PaddockError
from paddock.guests import Guest, expect
from paddock.recipes.checks import Attempt, Databases, ReadFile, WriteInto
from paddock.recipes.workload import OpenPort, Request
from paddock.runtimes.isolation import Isolation
from paddock.runtimes.program import program

# Beside what is the agent's own: where units are, and where everyone may write.
_OPEN_FOLDERS: Final = ("/etc/systemd", "/run/systemd", "/tmp", "/var/tmp")  # noqa: S108
_SECONDS: Final = 150
MACHINE: Final = [
    f"paddock.checks.machine.{name}"  # each may import the ones before it
    for name in ("files", "processes", "output", "state", "shipped", "isolation", "ports", "leaks", "main")
]
_KINDS: Final[Mapping[type, str]] = {
    Request: "request",
    ReadFile: "file",
    Databases: "databases",
    Attempt: "attempt",
    OpenPort: "port",
    WriteInto: "write",
}


@dataclass(frozen=True)
class Means:
    """How the agent's runtime looks and enters, as argvs for its machine."""

    inspect: Sequence[str]
    enter: Sequence[str]  # runs the Python program that follows, beside the agent
    logs: Sequence[str]


def look(guest: Guest, subject: Subject, means: Means, *, quick: bool) -> dict[str, Any]:
    """Return what is there."""
    paths, own = subject.paths, f"{subject.paths.state}/.paddock"
    question = {
        "all": not quick,
        "supervisor": list(means.inspect),
        "processes": list(subject.processes),
        "lease_file": f"{own}/lease",
        "holder_file": f"{own}/holder",
        "folders": [paths.state, own, paths.home],
        "etc": paths.etc,
        "files": sorted(subject.files),
        "tree": subject.tree,
        "ports": sorted({*subject.ports, *subject.health_port}),
        "alone": Isolation.ACCOUNT in subject.confined,
        "env_files": [f"{subject.root}/secrets.env", f"{subject.root}/generated.env"],
        "search": [subject.root, paths.state, *_OPEN_FOLDERS],
        "logs": list(means.logs),
        "inside": {
            "argv": list(means.enter),
            "program": program("paddock.runtimes.loopback", "paddock.checks.inside"),
            "questions": [
                {"kind": _KINDS[type(check.question)], **asdict(check.question)}
                for check in subject.questions(quick=quick)
            ],
        },
    }
    argv = ["python3", "-I", "-c", program(*MACHINE)]
    printed = expect(guest, "looking at the agent", argv, stdin=json.dumps(question).encode(), deadline=_SECONDS)
    try:
        return dict(json.loads(printed))
    except ValueError:
        raise PaddockError(f"the look at {guest.name} printed no facts: {printed[:200]!r}") from None
