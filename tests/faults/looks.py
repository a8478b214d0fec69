"""Look at an agent with every verb that changes nothing, in whatever condition a killed run has left it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from asked import answer, asked, is_asked
from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.core.converge import plan
from paddock.core.deployment import Deployment
from paddock.verbs.enter import show_logs
from paddock.verbs.status import Status, table
from paddock.verbs.verify import verify

_REFUSED: Final = {"refused": "nobody answers"}
_LOOKED_AT: Final = (
    *("state", "lease", "ports", "memory", "limits", "isolation", "login", "outside"),
    *("listening", "company", "leaks", "configuration", "code", "inside", "health"),
)
_FACTS: Final = {**dict.fromkeys(_LOOKED_AT, _REFUSED), "processes": {}, "now": 0.0, "uid": 0}
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
        if isinstance(stdin, bytes) and (silent := silent_answer(argv, stdin)):
            return Result(tuple(argv), 0, silent, "", 0)
        found: Result = self.guest.run(argv, stdin=stdin, deadline=deadline)
        return found

    def stream(self, *_: object) -> int:
        return 0


def silent_answer(argv: Sequence[str], stdin: bytes) -> str:
    """Return what a machine answers whose agent is silent; nothing if it was not asked about its agent."""
    silent = {"Look": _FACTS, "AskAgent": _REFUSED}
    name = asked(stdin)[0] if is_asked(argv) else ""
    return answer(silent[name]) if name in silent else ""
