"""Find files of an agent on the root disk of an adopted machine, before the disk is destroyed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.errors import NeedsPerson, PaddockError
from paddock.guests import Guest, expect
from paddock.guests.report import records
from paddock.plan.step import Refusal
from paddock.runtimes import machine
from paddock.visible import one_line

if TYPE_CHECKING:
    from paddock.run.resolve import Located

_SECONDS: Final = 120  # for a search of the whole root disk
_SHOWN: Final = 5
_LONGEST: Final = 120
_LOOKED: Final = "if you have looked there yourself and no file is worth keeping, add --looked"


@dataclass
class RootDisk:
    """The check of a root disk, once per run: a later attempt may find the machine stopped."""

    looked: bool  # this run, or a person, found nothing worth keeping there

    def refusals(self, agent: Located, machine: str, reach: Callable[[], Guest | None], remedy: str) -> list[Refusal]:
        """Return the refusals to destroy a root disk: files of the agent are on it, or it could not be searched."""
        if self.looked:
            return []
        try:
            guest = reach()
            found = look(agent, guest) if guest else []
        except PaddockError as error:
            reason = f"the root disk of {machine} could not be searched for files of {agent.name}: {error.message}"
            # --looked does not help while the host key of the machine is unknown.
            yourself = None if isinstance(error, NeedsPerson) else _LOOKED
            hints = "\n".join(filter(None, (error.hint, yourself)))
            return [Refusal(reason, hints, code="root-disk.unread")]
        if not found:
            self.looked = True
            return []
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return [
            Refusal(
                f"{machine} has files on its root disk that may be state of {agent.name}:"
                f" {', '.join(one_line(path, _LONGEST) for path in found[:_SHOWN])}{more}",
                f"a machine is destroyed with its root disk: {remedy}\n{_LOOKED}",
                code="root-disk.files",
            )
        ]


def look(agent: Located, guest: Guest) -> list[str]:
    """Return paths on the machine's root disk that may hold files of the agent."""
    traces, user = agent.recipe.traces(agent.spec), agent.spec.user
    argv = machine.report_strays(user, traces.directories, traces.names)
    told = records(expect(guest, "looking for files of the agent", argv, deadline=_SECONDS))
    paths = dict.fromkeys(path for name, path in told if name == "stray")
    return [path for path in paths if not any(path.startswith(f"{other}/") for other in paths)]
