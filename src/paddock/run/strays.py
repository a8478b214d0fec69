"""Files of an agent on the root disk of a machine that Paddock has not made: they would be destroyed with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from paddock.errors import NeedsPerson, PaddockError
from paddock.guests import Guest, expect
from paddock.guests.report import records
from paddock.plan.step import Refusal
from paddock.runtimes import machine
from paddock.visible import one_line

if TYPE_CHECKING:
    from paddock.run.deployment import Deployment

_SECONDS: Final = 120  # for a whole root disk
_SHOWN: Final = 5
_LONGEST: Final = 120
_LOOKED: Final = "if you have looked there yourself and nothing of it is worth keeping, add --looked"


def refusals(agent: Deployment, machine: str, reach: Callable[[], Guest | None], remedy: str) -> list[Refusal]:
    """What stands against a root disk being destroyed; one that cannot be looked at is not known to be empty."""
    if agent.looked:
        return []
    try:
        guest = reach()
        found = look(agent, guest) if guest else []
    except PaddockError as error:
        reason = f"whether the root disk of {machine} holds files of {agent.name} could not be seen: {error.message}"
        yourself = None if isinstance(error, NeedsPerson) else _LOOKED  # who answers there has to be known anyway
        return [Refusal(reason, "\n".join(filter(None, (error.hint, yourself))))]
    if not found:
        agent.looked = True  # a later attempt of this run may find the machine stopped
        return []
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [
        Refusal(
            f"{machine} has files on its root disk that may be the memory of {agent.name}:"
            f" {', '.join(one_line(path, _LONGEST) for path in found[:_SHOWN])}{more}",
            f"the root disk is destroyed with its machine, and Paddock cannot import files yet: {remedy}\n{_LOOKED}",
        )
    ]


def look(agent: Deployment, guest: Guest) -> list[str]:
    """Return the paths on the machine's root disk where files of such an agent are."""
    traces, user = agent.recipe.traces(agent.spec), agent.spec.user
    argv = machine.report_strays(user, traces.directories, traces.names)
    told = records(expect(guest, "looking for files of the agent", argv, deadline=_SECONDS))
    paths = dict.fromkeys(path for name, path in told if name == "stray")
    return [path for path in paths if not any(path.startswith(f"{other}/") for other in paths)]
