"""Report an agent on its machine. Changes nothing.

Each fact has a reader with the name of its field (`paddock.plan.agent.AgentSeen`): to add a fact is to add both.
"""

from __future__ import annotations

import os
from functools import cached_property
from hashlib import sha256

from paddock.onboard.agent import Agent, current_bundle, settings
from paddock.onboard.code.packages import installer as found_installer
from paddock.onboard.code.packages import present
from paddock.onboard.engine.containers import Engine
from paddock.onboard.engine.look import containers as look_at_containers
from paddock.onboard.files import is_held, lines, link_of, names, text
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import FAILED, Refusal
from paddock.onboard.remains import processes
from paddock.onboard.state.home import changed_since_written
from paddock.onboard.state.top import holder as found_holder
from paddock.onboard.state.top import identity_of, is_own, newer_version, own
from paddock.onboard.state.version import replaced_state, version_that_ran
from paddock.onboard.state.version import upgrade as found_upgrade
from paddock.onboard.systemd.account import is_of_paddock, ways_in
from paddock.onboard.systemd.look import units as look_at_units
from paddock.onboard.systemd.manager import Manager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from paddock.onboard.program.serve import Payload

LONGEST = 2000  # characters of a text
MOST = 500  # entries of a list: as much as a person would read


@frozen
class Observe:
    """Report an agent."""

    agent: Agent
    packages: tuple[str, ...] = ()
    distribution: str = ""  # the package that brings its code
    engine: Engine | None = None

    def perform(self, _: Payload) -> dict[str, Any]:
        return Look(self).report()


class Look:
    """One look at an agent."""

    def __init__(self, asked: Observe) -> None:
        self.asked = asked
        self.agent = asked.agent
        self.root = asked.agent.root

    def report(self) -> dict[str, Any]:
        return {name: cut(read(self)) for name, read in READERS.items()}

    @cached_property
    def state(self) -> str:
        """Where the state is. Without a link of its own, the agent may have a state under a former id."""
        if os.path.exists(self.agent.state_link):
            return link_of(self.agent.state_link) or self.agent.state
        for former in self.agent.formers:
            found = link_of(self.agent.link_of(former)) or self.agent.link_of(former)
            if is_own(own(found)) and identity_of(found) == former:
                return found
        return self.agent.state

    @cached_property
    def known(self) -> bool:
        """Whether there is a state that Paddock has marked."""
        return is_own(own(self.state)) and os.path.exists(f"{own(self.state)}/identity")

    @cached_property
    def bundle(self) -> dict[str, str]:
        return settings(self.agent.current)

    @cached_property
    def units(self) -> Any:
        if not self.agent.manager:
            running = is_own(own(self.state)) and is_held(f"{own(self.state)}/lease")
            return {"units": {"run": "active"} if running else {}}
        return look_at_units(self.agent)

    @cached_property
    def containers(self) -> Any:
        if not self.agent.manager:
            return {}
        return look_at_containers(self.agent, self.asked.engine)


def cut(value: Any) -> Any:
    """Return a value of a size that a person could read. The agent has written some of them."""
    if isinstance(value, str):
        return value[:LONGEST].encode(errors="replace").decode()
    if isinstance(value, dict):
        return {name[:LONGEST]: cut(each) for name, each in list(value.items())[:MOST]}
    return [cut(each) for each in value[:MOST]] if isinstance(value, list) else value


READERS: dict[str, Callable[[Look], Any]] = {}


def reader(read: Callable[[Look], Any]) -> Callable[[Look], Any]:
    READERS[read.__name__] = read
    return read


def of_a_state(read: Callable[[Look], Any]) -> Callable[[Look], Any]:
    """Make a reader of a fact about a marked state."""
    default: Any = [] if read.__name__ == "changed" else "" if read.__name__ in ("state_version", "ran") else None
    READERS[read.__name__] = lambda look: read(look) if look.known else default
    return read


# The machine


@reader
def packages(look: Look) -> list[str]:
    engine = look.asked.engine
    here = present(look.asked.packages)
    # Another package may have installed the engine.
    brought = [*engine.packages] if engine and look.containers["container"]["engine"] != "missing" else []
    return sorted({*here, *brought})


@reader
def installer(look: Look) -> str:
    return found_installer()


@reader
def system(look: Look) -> str:
    return str(look.units.get("system", ""))


@reader
def init(look: Look) -> str:
    return str(look.units.get("init", "")) or text("/proc/1/comm").strip()


@reader
def notes(look: Look) -> list[str]:
    return list(look.units.get("notes", []))


@reader
def room(look: Look) -> list[int] | None:
    if not os.path.isdir(look.state):
        return None
    found = os.statvfs(look.state)
    return [found.f_blocks * found.f_frsize, (found.f_blocks - found.f_bfree) * found.f_frsize]


# Its configuration and its code


@reader
def trees(look: Look) -> list[str]:
    return [name for name in names(look.agent.store) if os.path.exists(f"{look.agent.store}/{name}/manifest")]


@reader
def bundle_id(look: Look) -> str:
    return current_bundle(look.root)


@reader
def answered(look: Look) -> str:
    return text(f"{look.root}/answered").strip()


@reader
def before(look: Look) -> str:
    if os.path.exists(f"{look.root}/answered"):
        # Its successor exists already, and the configuration is still the one from before.
        return answered(look) if look.containers.get("replaced") else ""
    return text(f"{look.root}/before/bundle").strip()


@reader
def secrets(look: Look) -> str:
    if not os.path.exists(f"{look.root}/secrets.env"):
        return ""
    paths = ["secrets.env", *(f"secret-files/{name}" for name in names(f"{look.root}/secret-files"))]
    return sha256("".join(text(f"{look.root}/{path}") for path in paths).encode(errors="surrogateescape")).hexdigest()


@reader
def pending(look: Look) -> bool:
    return os.path.exists(f"{look.root}/pending")


@reader
def housing(look: Look) -> dict[str, str]:
    """What the code of the current bundle runs in. An image that brings the code is the agent's version."""
    engine, units = look.bundle.get("ENGINE", ""), look.bundle.get("UNITS", "")
    base = look.bundle.get("IMAGE", "") if engine and look.bundle.get("TREE") else ""
    return {"runtime": engine or ("systemd" if units else ""), "base": base}


# Its state


@of_a_state
def state_at(look: Look) -> str:
    return look.state


@of_a_state
def state_of(look: Look) -> str:
    return identity_of(look.state)


@of_a_state
def state_version(look: Look) -> str:
    return newer_version(look.state)


@reader
def planted(look: Look) -> str | None:
    folder = own(look.state)
    return folder if os.path.lexists(folder) and not is_own(folder) else None


@reader
def forgotten(look: Look) -> str | None:
    return _forgotten(look, look.agent.id)


def _forgotten(look: Look, agent: str) -> str | None:
    path = f"{os.path.dirname(look.state)}/.paddock-forgotten-{agent}"
    return path if os.path.lexists(path) else None


@of_a_state
def kept_aside(look: Look) -> str | None:
    return replaced_state(look.state) or None


@of_a_state
def unsettled(look: Look) -> str | None:
    left = [f"{own(look.state)}/{name}" for name in ("incoming", "incoming.json", "incoming-aside", "discarded")]
    found = [path for path in left if os.path.exists(path)]
    return found[-1] if found else None


@of_a_state
def changed(look: Look) -> list[str]:
    return list(changed_since_written(look.root, f"{look.state}/home"))


@of_a_state
def ran(look: Look) -> str:
    return version_that_ran(look.state, look.root, look.asked.distribution)


@of_a_state
def upgrade(look: Look) -> dict[str, Any] | None:
    found = found_upgrade(look.state)
    if not found:
        return None
    try:
        return {
            "before": found["from"],
            "after": found["to"],
            "backup": found["backup"],
            "where": found["where"],
            "at": int(found["at"]),
            "verified": found.get("verified") == "yes",
            "back": found.get("back") == "yes",
            "why": found.get("why", ""),
            "housing": {"runtime": found.get("runtime", ""), "base": found.get("base", "")},
        }
    except (KeyError, ValueError):
        raise Refusal("the record of the last upgrade in the agent's state cannot be read", FAILED) from None


@of_a_state
def holder(look: Look) -> str | None:
    return found_holder(look.state) or None


# Its units and its container


@reader
def units(look: Look) -> dict[str, str]:
    return dict(look.units["units"])


@reader
def ends(look: Look) -> dict[str, dict[str, Any]]:
    return dict(look.units.get("ends", {}))


@reader
def said(look: Look) -> str:
    return str(look.units.get("said", ""))


@reader
def limits(look: Look) -> list[str]:
    return [line for line in lines(f"{look.root}/limits.conf") if not line.startswith("[")]


@reader
def account(look: Look) -> str:
    if look.agent.manager != "system" or not look.bundle:
        return ""
    uid = look.bundle.get("USER_UID", "")
    return f"{look.bundle.get('OWNER', '')}:{uid}:{look.bundle.get('GROUP_GID') or uid}"


@reader
def numbers(look: Look) -> dict[str, str]:
    """Who runs what under which number of an account: the agent, which is not here yet, needs one of its own."""
    agents = (look.agent.id, *look.agent.formers)
    if look.agent.manager != "system" or any(os.path.lexists(f"{look.agent.root_of(each)}/current") for each in agents):
        return {}
    return {str(uid): f"{each.name} in {each.unit}" for uid, each in processes().items()}


@reader
def account_open(look: Look) -> list[str]:
    user = account(look).partition(":")[0]
    return ways_in(user) if user and is_of_paddock(user) else []


@reader
def container(look: Look) -> dict[str, Any]:
    return dict(look.containers.get("container", {}))


@reader
def left(look: Look) -> dict[str, list[str]]:
    return dict(look.containers.get("left", {}))


@reader
def namesakes(look: Look) -> dict[str, Any]:
    agent, of = look.agent, state_of(look) if look.known else None
    formers = [each for each in agent.formers if os.path.islink(f"{agent.root_of(each)}/current")]
    formers += [*look.units.get("formers", {}), *look.containers.get("formers", [])]
    left_behind = [path for each in agent.formers if (path := _forgotten(look, each))]
    return {
        "former": formers[-1] if formers else None,
        "units": {unit: state for found in look.units.get("formers", {}).values() for unit, state in found.items()},
        "state_of_former": of if of in agent.formers else None,
        "state_of_other": of if of and of not in (*agent.formers, agent.id) else None,
        "forgotten": left_behind[-1] if left_behind else None,
        "others": agent.others_of_its_name(),
    }


@frozen
class AgentsSeen:
    """The agents of a machine, and the states by the ids of their agents."""

    agents: frozenset[str]
    active: frozenset[str]
    states: dict[str, str]


@frozen
class ReportAgents:
    """Report all agents beside one, and the states of the machine."""

    agent: Agent

    def perform(self, _: Payload) -> AgentsSeen:
        found = [each for each, root in self.agent.roots() if os.path.islink(f"{root}/current")]
        links = os.path.dirname(self.agent.state_link)
        active = []
        if self.agent.manager:
            manager = Manager(self.agent.manager)
            words = ["list-units", "--plain", "--no-legend", "--state=active"]
            active = [each for each in found if manager.run(*words, f"paddock-{each}.*").out]
        states = {name: link_of(f"{links}/{name}") for name in names(links) if os.path.islink(f"{links}/{name}")}
        return AgentsSeen(frozenset(found), frozenset(active), states)
