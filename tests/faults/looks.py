"""Look at an agent with every verb that changes nothing, in whatever condition a killed run has left it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.core.converge import plan
from paddock.core.deployment import Deployment
from paddock.verbs.enter import show_logs
from paddock.verbs.status import Status, table
from paddock.verbs.verify import verify

_REFUSED: Final = {"refused": "nobody answers"}
_FACTS: Final = (
    *("state", "lease", "ports", "memory", "limits", "isolation", "login"),
    *("listening", "company", "leaks", "configuration"),
)
LOOKS: Final[Mapping[str, Callable[[Deployment], object]]] = {
    "status": lambda agent: table([Status.of(agent)]),
    "plan": plan,
    "verify": lambda agent: verify(agent).as_text(),
    "logs": lambda agent: show_logs(agent, 10, follow=False),
}


def crashes(agent: Deployment) -> list[str]:
    """Return a sentence for each verb that ends in another way than with its result or with an error for a person."""
    place: Any = agent.place
    real = place.guest
    place.guest = lambda *asked: Silent(guest) if (guest := real(*asked)) else None
    found = []
    for name, look in LOOKS.items():
        try:
            look(agent)
        except PaddockError:
            continue
        except Exception as error:  # noqa: BLE001 - the command line calls it a bug in Paddock
            found.append(f"`{name}` crashes: {type(error).__name__}: {error}")
    return found


@dataclass(frozen=True)
class Silent:
    """A machine as it is, whose agent answers nothing and has logged nothing."""

    guest: Any

    @property
    def name(self) -> str:
        return str(self.guest.name)

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        if argv[0] == "python3" and isinstance(stdin, bytes) and stdin:
            return Result(tuple(argv), 0, silent_answer(stdin), "", 0)
        found: Result = self.guest.run(argv, stdin=stdin, deadline=deadline)
        return found

    def stream(self, *_: object) -> int:
        return 0


def silent_answer(question: bytes) -> str:
    """Return what the programs of `status` and `verify` print on a machine whose agent answers nothing."""
    if "inside" not in json.loads(question):
        return json.dumps(_REFUSED)
    facts: dict[str, Any] = dict.fromkeys((*_FACTS, "code", "inside", "health"), _REFUSED)
    return json.dumps({**facts, "processes": {}, "now": 0.0, "uid": 0})
