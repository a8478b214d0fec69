"""The model gateway of an agent: another agent that serves its models, and the address it is reached at."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from paddock.errors import PaddockError
from paddock.recipes.model_gateway import ModelServer, Offer
from paddock.spec.models import AgentSpec

if TYPE_CHECKING:
    from paddock.run.resolve import Located

_HERE: Final = "local"  # the address of the machine that Paddock itself runs on


class GatewayUnknown(PaddockError):
    """The model gateway has no address yet."""


def offer_of(gateway: Located) -> Offer:
    """Return what the model gateway offers to other agents."""
    offer = gateway.recipe.offer(gateway.spec)
    if offer is None:
        raise AssertionError("the loader accepts no other kind as a model gateway")
    return offer


def server(gateway: Located, user: Located) -> ModelServer:
    """Return the model gateway as another agent reaches it; reads its address if the file does not state it."""
    offer = offer_of(gateway)
    if same_machine(gateway, user):
        return ModelServer(gateway.name, gateway.spec.url(offer.port) + offer.path)
    host = stated_host(gateway.spec, offer) or _seen_host(gateway)
    if host is None:
        raise GatewayUnknown(
            f"{gateway.name}, the model gateway of {user.name}, has no address yet",
            hint=f"run `paddock up --only {gateway.name}` first; an `up` of both does that",
        )
    return ModelServer(gateway.name, f"http://{host}:{gateway.spec.ports()[offer.port]}{offer.path}")


def same_machine(one: Located, other: Located) -> bool:
    """Whether both are on one host, so that they share its loopback."""
    if not (one.place.traits.keeps_machine and other.place.traits.keeps_machine):
        return False
    return _address(one) == _address(other)


def stated_host(spec: AgentSpec, offer: Offer) -> str | None:
    """Return the address that the file states, in the form of a URL: the exposed one, or the machine's own."""
    exposed = ipaddress.ip_address(spec.listens_on(offer.port))
    if not exposed.is_unspecified:
        return f"[{exposed}]" if exposed.version == 6 else str(exposed)
    card = spec.machine.net.address
    return None if card == "dhcp" else card.partition("/")[0]


def _seen_host(gateway: Located) -> str | None:
    address = _address(gateway)
    return None if address == _HERE else address


def _address(agent: Located) -> str | None:
    seen = agent.place.observed(agent.machine_want) or agent.place.observe(agent.machine_want)
    return agent.place.machine(agent.machine_want, seen).address
