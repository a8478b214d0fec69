"""Whether a folder may become the state of an agent.

It must not be at, above or below folders of the system, of Paddock, or of another agent's state. Links are resolved,
which the check of the file cannot do. What names other agents' states belongs to root, or without root to this account.
"""

from __future__ import annotations

import os

from paddock.onboard.agent import Agent, in_words, settings
from paddock.onboard.files import names, within
from paddock.onboard.program.refusal import Refusal

# The same folders as in `paddock.file.rules.folders`; a test compares them.
_ALONE = (
    *("/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/backups", "/var/cache"),  # noqa: S108
    *("/var/lib", "/var/local", "/var/log", "/var/mail", "/var/opt", "/var/tmp"),  # noqa: S108
)
_WITH_EVERYTHING_BELOW = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/usr"),
    *("/root/.ssh", "/var/lock", "/var/run", "/var/spool", "/var/lib/apt", "/var/lib/containers", "/var/lib/docker"),
    *("/var/lib/dpkg", "/var/lib/lxc", "/var/lib/systemd"),
)
_PADDOCK = "Paddock's own"


def check_state_path(agent: Agent, state: str) -> None:
    """Refuse a folder that is not for a state."""
    real = os.path.realpath(state)
    if real in _ALONE or any(within(real, folder) for folder in _WITH_EVERYTHING_BELOW):
        raise _not_for_a_state(state, real, "the system's own")
    links = os.path.dirname(agent.state_link)
    own = [os.path.dirname(agent.store), links]
    own += [root for _, root in agent.roots()] if agent.in_account else [os.path.dirname(agent.root)]
    own += [agent.root] if agent.in_account else []
    for folder in own:
        _keep_apart(state, folder, _PADDOCK)
    for other, root in agent.roots():
        theirs = settings(f"{root}/current").get("STATE")
        if other != agent.id and theirs:
            _keep_apart(state, theirs, f"the state of {in_words(other)}")
    for other in names(links):
        # The agent's own link has the name ID.new until it is complete.
        if other not in (agent.id, f"{agent.id}.new") and os.path.islink(f"{links}/{other}"):
            _keep_apart(state, f"{links}/{other}", f"the state of {in_words(other)}")
    _check_default_paths(agent, state, real)


def _check_default_paths(agent: Agent, state: str, real: str) -> None:
    """Refuse what is beside the default paths of states: FOLDER/NAME, in an account FOLDER/NAME/state.

    Paddock 0.1 put a link there for a state elsewhere. It may lead to this very state: then the identity decides.
    """
    states = os.path.realpath(agent.state_link.partition("/.agents/")[0])
    below = "" if states == "/var/lib/paddock" else "/state"
    for name in names(states):
        path = f"{states}/{name}{below}"
        if not name.startswith(".") and os.path.islink(path) and os.path.realpath(path) != real:
            _keep_apart(state, path, "the state of an agent that has no project")
    if within(real, states):
        name = real[len(states) :].lstrip("/")
        if not name or name.startswith(".") or name != f"{name.partition('/')[0]}{below}":
            raise _not_for_a_state(state, states, _PADDOCK)


def _keep_apart(state: str, folder: str, owner: str) -> None:
    real, there = os.path.realpath(state), os.path.realpath(folder)
    if within(real, there) or within(there, real):
        raise _not_for_a_state(state, folder, owner)


def _not_for_a_state(state: str, folder: str, owner: str) -> Refusal:
    real = os.path.realpath(state)
    if real == state:
        return Refusal(f"the state cannot be {state}, because {folder} is {owner}: write another state.path")
    return Refusal(f"{state} leads to {real}, and {folder} is {owner}: write another state.path")
