"""The programs that a file starts on this computer, with the rights of the account that uses the file.

The programs of agents are not among them: `up` and `run` exist to start these.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from paddock.base.frozen import frozen
from paddock.base.text import visible
from paddock.file.models.agent import AgentSpec, RuntimeName
from paddock.file.models.backup import ResticSpec
from paddock.file.models.place import PlaceSpec, Scope
from paddock.file.models.whole import Spec
from paddock.file.referenced import parts
from paddock.file.secrets.sources import Source
from paddock.file.tree import Location, dotted

# Credentials, which restic only sends. Every other variable may name a program, a library or a configuration.
_CREDENTIALS: Final = re.compile(
    r"AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|DEFAULT_REGION|REGION)|B2_ACCOUNT_(ID|KEY)"
    r"|AZURE_ACCOUNT_(NAME|KEY|SAS)|GOOGLE_(PROJECT_ID|ACCESS_TOKEN)|RESTIC_REST_(USERNAME|PASSWORD)|(OS|ST)_[A-Z_]+"
)
# A remote of rclone's own configuration. With options, or without a name, its text itself can name a program.
_PLAIN_REMOTE: Final = re.compile(r"rclone:[\w.+@][\w.+@ -]*(:.*)?")
# ssh would read such a host as an option.
_OPTION_AS_HOST: Final = re.compile(r"sftp:(//)?([^/@]*@)?-")


@frozen
class Command:
    """Something that Paddock would start for a file."""

    where: Location
    argv: Sequence[str] = ()  # of a command that is run as the file says
    what: str = ""  # in words, if there is no such command

    def shown(self) -> str:
        """Return the whole command with its key. Nothing of it is cut, and nothing of it is invisible."""
        text = visible(shlex.join(self.argv) if self.argv else self.what)
        return f"{dotted(self.where)}: {text}".replace("\n", "\\n").replace("\t", "\\t")

    def id(self, folder: Path) -> str:
        """Return the hash of the command in a folder: a relative path is another program in another folder."""
        return hashlib.sha256(json.dumps([str(folder), *(self.argv or ["", self.what])]).encode()).hexdigest()


def commands(spec: Spec) -> list[Command]:
    """Return everything that the file starts on this computer, in the order of the file."""
    return [*_commands(spec)]


def _commands(spec: Spec) -> Iterator[Command]:
    for location, part in parts(spec, (), (Source, ResticSpec)):
        if isinstance(part, Source) and part.command is not None:
            yield Command(location, part.command)
        elif isinstance(part, ResticSpec):
            yield from _of_restic(location, part)
    if spec.notify is not None and spec.notify.command is not None:
        yield Command(("notify", "command"), spec.notify.command)
    for name, agent in spec.agents.items():
        at = ("agents", name)
        place = spec.places.get(agent.place)
        health = getattr(getattr(agent, "health", None), "command", None)
        if health and place is not None and _in_this_account(place, agent):
            yield Command((*at, "health", "command"), health)
        package = getattr(agent, "package", None)
        if isinstance(package, Path) and package.suffix != ".whl":
            yield Command((*at, "package"), what=f"the build of the Python package in {package}")


def _of_restic(location: Location, restic: ResticSpec) -> Iterator[Command]:
    repository = restic.repository
    if (repository.startswith("rclone:") and not _PLAIN_REMOTE.fullmatch(repository)) or _OPTION_AS_HOST.match(
        repository
    ):
        yield Command((*location, "repository"), what=f"restic with the repository {repository}")
    more = sorted(name for name in restic.environment if not _CREDENTIALS.fullmatch(name))
    if more:
        sources = ", ".join(f"{name} from {restic.environment[name]}" for name in more)
        yield Command((*location, "environment"), what=f"restic with the variables {sources}")


def _in_this_account(place: PlaceSpec, agent: AgentSpec) -> bool:
    """Whether the agent runs in the account that runs Paddock, without its own account."""
    here = place.host is not None and place.host.address is None
    own = agent.runtime is RuntimeName.PROCESS or (place.host is not None and place.host.scope is Scope.USER)
    return here and own
