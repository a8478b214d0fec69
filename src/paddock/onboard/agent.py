"""An agent on its machine: where its parts are, what its bundle says, and the lock of those who change it."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager

from paddock.onboard.files import link_of, locked, names, text
from paddock.onboard.program.frozen import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SETTING = re.compile(r'(?m)^(\w+)="((?:[^"\\]|\\.)*)"$')
_ESCAPED = re.compile(r"\\(.)")


@frozen
class Agent:
    """Where the parts of an agent are. Root owns these folders, or without root the account."""

    manager: str  # the systemd that supervises it: system, user, or none
    id: str  # PROJECT_NAME; what Paddock 0.1 deployed has the name alone
    formers: tuple[str, ...]  # ids under which it may be here so far
    root: str  # its bundles and secrets
    store: str  # the trees of code of all agents
    state_link: str  # leads to its state
    state: str  # where the file says that its state is

    @property
    def name(self) -> str:
        return name_of(self.id)

    @property
    def current(self) -> str:
        """Its current bundle."""
        return f"{self.root}/current"

    @property
    def versions(self) -> str:
        """The links to the trees of code that it needs."""
        return f"{os.path.dirname(self.store)}/{self.id}"

    @property
    def in_account(self) -> bool:
        """Whether the configurations of agents are beside their states, in an account."""
        return self.root.endswith(f"/{self.id}/etc")

    def root_of(self, other: str) -> str:
        """Return where the agent with another id has its bundles."""
        top = self.root.removesuffix(f"/{self.id}/etc")
        return f"{top}/{other}/etc" if self.in_account else f"{os.path.dirname(self.root)}/{other}"

    def roots(self) -> Iterator[tuple[str, str]]:
        """Yield the ids of all agents of the machine, with the folders of their bundles."""
        top = self.root.removesuffix(f"/{self.id}/etc") if self.in_account else os.path.dirname(self.root)
        for name in names(top):
            if not name.startswith("."):
                yield name, self.root_of(name)

    def link_of(self, former: str) -> str:
        """Return the link to the state of the agent under a former id.

        Paddock 0.1 made it at the default path of a state; a state that is at that path has no link.
        """
        states = self.state_link.partition("/.agents/")[0]
        if "_" in former:
            return f"{states}/.agents/{former}"
        return f"{states}/{former}" if states == "/var/lib/paddock" else f"{states}/{former}/state"

    def others_of_its_name(self) -> list[str]:
        """Return the ids of other agents with this agent's name."""
        links = os.path.dirname(self.state_link)
        found = {name for name, root in self.roots() if os.path.islink(f"{root}/current")}
        found |= {name for name in names(links) if os.path.islink(f"{links}/{name}")}
        return sorted(each for each in found - {self.id, *self.formers} if name_of(each) == self.name)

    @contextmanager
    def lock(self, root: str = "") -> Iterator[None]:
        """Let one run at a time configure or remove the agent.

        The locks on operators' machines do not suffice: two operators may run Paddock at once, or one operator may
        reach this machine under two addresses.
        """
        with locked(
            root or self.root, "another run is configuring or removing this agent; wait until that run has ended"
        ):
            yield


def name_of(id: str) -> str:  # noqa: A002
    return id.partition("_")[2] if "_" in id else id


def in_words(id: str) -> str:  # noqa: A002
    project, underscore, name = id.partition("_")
    return f"{name} of project {project}" if underscore else f"{id}, which has no project"


def settings(bundle: str) -> dict[str, str]:
    """Return the settings of a bundle, by their names. Nothing of it is run."""
    return parsed(text(f"{bundle}/bundle.env"))


def parsed(written: str) -> dict[str, str]:
    """Return the values of a file of settings, whose special characters are escaped for a shell."""
    return {name: _ESCAPED.sub(r"\1", value) for name, value in _SETTING.findall(written)}


def current_bundle(root: str) -> str:
    """Return the id of the current bundle."""
    return link_of(f"{root}/current")
