"""Copies of agents: another agent with a machine and a state of its own, made from a backup, that cannot act."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from paddock.base.errors import BadInput, Refused
from paddock.base.frozen import frozen
from paddock.channels import Guest, expect
from paddock.channels.onboard import ask
from paddock.core import converge
from paddock.core.deployment import Deployment, Incoming
from paddock.core.resolve import locate
from paddock.core.standin import StandIn
from paddock.file.agent_id import AgentId
from paddock.file.models.agent import RuntimeName, UserSpec, VerifySpec
from paddock.file.models.machine import MachineSpec, StateSpec
from paddock.file.models.network import NetworkSpec
from paddock.file.models.whole import AgentSpec
from paddock.file.rules.enforcement import undermining
from paddock.onboard.vacant import FindVacant, Vacant

# A name in a file begins with a letter, so no file can have an agent with such a name. Everything with such an id at a
# place was created for a drill: the mount path of the volume in its pet, the mark of its machine, and the identity in
# its state. This is the proof that it may be deleted without asking a person.
_THROWAWAY: Final = "0drill-"

# Files that let somebody log in to or out of an account, beside those that the kind of agent names.
_LOGINS: Final = (".ssh",)

_MODEL_PORT: Final = 18642  # on a machine of its own


@frozen
class _Numbers:
    """The ports and the account of a copy on its machine."""

    ports: Mapping[str, int]
    model: int  # port of the stand-in
    user: UserSpec | None = None  # None: the same account as the agent's, on another machine


def throwaway_name(agent: str) -> str:
    """Return the name of the copy of an agent for a drill."""
    return f"{_THROWAWAY}{agent}"


def is_throwaway(agent: AgentId) -> bool:
    """Whether everything with this id was created for a drill."""
    return agent.name.startswith(_THROWAWAY)


def copy_of(agent: Deployment, name: str, incoming: Incoming | None = None, *, real_model: bool = False) -> Deployment:
    """Return the harmless copy of an agent, with another name, machine and state. It gets the incoming state."""
    _check_can_be_closed(agent)
    numbers = _numbers(agent, name)
    stand_in = None if real_model else StandIn(numbers.model)
    spec = agent.recipe.harmless(agent.spec, stand_in.url if stand_in else None, numbers.ports)
    if spec is None:
        raise Refused(
            f"{agent.name} is a {agent.spec.kind}, and Paddock does not know how to keep a copy of it from acting",
            hint=f"`paddock backup check {agent.name}` reads a backup completely",
        )
    keeping = agent.recipe.keeping(agent.spec)
    return replace(
        agent,
        name=name,
        spec=_elsewhere(spec, name, numbers),
        model_gateway=agent.model_gateway if real_model else None,
        formers=(),
        beside_others=True,
        incoming=replace(incoming, aside=(*_LOGINS, *keeping.acting)) if incoming else None,
        copy_of=agent,
        throwaway=name.startswith(_THROWAWAY),
        stand_in=stand_in,
    )


def _check_can_be_closed(agent: Deployment) -> None:
    """Refuse an agent whose copy could connect to something."""
    if agent.spec.runtime is RuntimeName.PROCESS or agent.place.account_home() is not None:
        raise Refused(
            f"a copy of {agent.name} could act: without root on the machine its connections cannot be closed",
            hint=f"`paddock backup check {agent.name}` reads a backup completely",
        )
    if agent.spec.runtime.is_engine and (found := undermining(agent.spec.container.options)):
        raise Refused(
            f"a copy of {agent.name} could act: container.options has {', '.join(found)},"
            " with which its connections cannot be closed",
            hint=f"`paddock backup check {agent.name}` reads a backup completely",
        )


def _numbers(agent: Deployment, name: str) -> _Numbers:
    """Return the ports and the account of a copy. On a host they must be free, because the agent itself is there."""
    if not agent.place.traits.keeps_machine:
        return _Numbers({}, _MODEL_PORT)
    names = list(agent.spec.ports())
    account = account_of(replace(agent, name=name).id)
    found = ask(_host(agent), "looking for free ports", FindVacant(account, len(names) + 1), into=Vacant)
    *ports, model = found.ports
    return _Numbers(dict(zip(names, ports, strict=True)), model, UserSpec(name=account, uid=found.uid))


def account_of(copy: AgentId) -> str:
    """Return the name of a copy's account on a host that other agents share."""
    return f"paddock-copy-{hashlib.sha256(str(copy).encode()).hexdigest()[:12]}"


def _host(agent: Deployment) -> Guest:
    located = locate(agent)
    guest = agent.place.guest(located.machine_want, agent.place.observe(located.machine_want), {})
    if guest is None:
        raise AssertionError("a host always has a guest")
    return guest


def _elsewhere(spec: AgentSpec, name: str, numbers: _Numbers) -> AgentSpec:
    """Return the agent with nothing that belongs to another one: machine, state, folders, account, ports."""
    net = spec.machine.net.model_copy(update={"address": "dhcp", "gateway": None, "mac": None})
    alone: dict[str, Any] = {
        "vmid": None,
        "hostname": None,
        "description": None,
        "net": net,
        "host_key": None,
        "start_on_boot": False,
    }
    machine: MachineSpec = spec.machine.model_copy(update=alone)
    beside = f"{spec.state.path.rpartition('/')[0]}/{name}" if spec.state.path else None
    container = spec.container.model_copy(update={"volumes": [], "sudo": False})
    return spec.model_copy(
        update={
            "machine": machine,
            "state": StateSpec(size=spec.state.size, storage=spec.state.storage, path=beside, backup=False),
            "mounts": [],
            "container": container,
            "user": numbers.user or spec.user,
            "working_directory": "workspace" if spec.working_directory.startswith("/") else spec.working_directory,
            "expose": {},
            "network": NetworkSpec(egress=[]),
            "verify": VerifySpec(timeout=spec.verify.timeout),
            "backup": None,
        }
    )


def remove(copy: Deployment) -> None:
    """Remove a copy that was created for a drill: its machine, its state, and its account on a host.

    The proof that nothing else is deleted is the id (see above), which `down` and `forget` read from the place and from
    the state right before they delete anything.
    """
    if not is_throwaway(copy.id):
        raise BadInput(f"{copy.name} was not created for a drill")
    converge.down(copy)
    seen, plan = converge.plan_forget(copy)
    converge.forget(copy, plan, seen)
    remove_account(copy)


def remove_account(copy: Deployment) -> None:
    """Remove the account that a copy had on a host. No agent of a file can have an account of this name by chance."""
    if copy.place.traits.keeps_machine:
        account = account_of(copy.id)
        script = 'getent passwd "$1" >/dev/null || exit 0; userdel "$1"'
        expect(_host(copy), "removing the account of a copy", ["sh", "-c", script, "paddock", account])
