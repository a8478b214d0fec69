"""Look at files on a machine: the directories under ``mounts:``, and files on a root disk before it is destroyed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paddock.base.errors import NeedsPerson, PaddockError
from paddock.base.text import one_line
from paddock.channels import Guest
from paddock.channels.onboard import ask
from paddock.file.models.whole import AgentSpec
from paddock.onboard.places import MountSeen, ReportMounts, ReportStrays
from paddock.plan.step import Refusal

if TYPE_CHECKING:
    from paddock.core.resolve import Located


def check(guest: Guest, agent: AgentSpec, owner: str, *, made_for_it: bool) -> None:
    """Raise an error about the first mount that the agent cannot use."""
    for sentence, hint in problems(guest, agent, owner, made_for_it=made_for_it):
        raise NeedsPerson(sentence, hint=hint)


def problems(guest: Guest, agent: AgentSpec, owner: str, *, made_for_it: bool) -> Iterator[tuple[str, str]]:
    """Yield each problem with a mount, tried on the machine with the agent's ids, and its remedy.

    A machine that was made for the agent has each directory mounted at the path that the agent sees. ``owner`` has the
    agent's ids as they are on the host.
    """
    paths = {(mount.path if made_for_it else mount.host): mount for mount in agent.mounts}
    report = ReportMounts(agent.user.uid, agent.user.gid or agent.user.uid, tuple(paths))
    for found in ask(guest, "checking the mounts", report, into=list[MountSeen]):
        kind, path = found.kind, found.path
        mount = paths[path]
        if kind == "missing":
            yield f"there is no directory {path} on {guest.name}", f"create it: mkdir {path}"
        elif kind == "secret":
            yield (
                f"{path} on {guest.name} contains Paddock's own files or an agent's state, which no agent may see",
                "choose another directory under mounts:",
            )
        elif made_for_it and kind == "directory":
            yield (
                f"{mount.host} is in the configuration of {guest.name}, but is not mounted at {path} there",
                "restart the machine, and look at its console on the node",
            )
        elif not mount.read_only and not found.writable and kind == "disk":
            yield (
                f"{mount.host} is a mount point, which the agent cannot own",
                "choose a directory below it under mounts:",
            )
        elif not mount.read_only and not found.writable:
            yield (
                f"{agent.user.name} (uid {found.tried}) may not write to {path} on {guest.name},"
                f" which uid {found.owner} owns",
                f"on the host: chown {owner} {shlex.quote(mount.host)}",
            )


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
    report = ReportStrays(user.name, user.uid, tuple(traces.directories), tuple(traces.names))
    paths = ask(guest, "looking for files of the agent", report, deadline=_SECONDS, into=list[str])
    return [path for path in paths if not any(path.startswith(f"{other}/") for other in paths)]
