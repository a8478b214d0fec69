"""One agent gives another its models: where it is, as the other reaches it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from paddock.errors import PaddockError
from paddock.recipes.model_gateway import ModelServer, Offer
from paddock.spec.models import AgentSpec

if TYPE_CHECKING:
    from paddock.run.wanted import Wanted

_HERE: Final = "local"  # what a place calls the machine that Paddock itself runs on


class GatewayUnknown(PaddockError):
    """Nobody can say yet where the gateway is."""


def offer_of(gateway: Wanted) -> Offer:
    """What the gateway has for others."""
    offer = gateway.recipe.offer(gateway.spec)
    if offer is None:
        raise AssertionError("the validator lets no other kind be a gateway")
    return offer


def server(gateway: Wanted, user: Wanted) -> ModelServer:
    """Return the gateway as another agent reaches it; looks where that cannot be told from the file."""
    offer = offer_of(gateway)
    if same_machine(gateway, user):
        return ModelServer(gateway.name, gateway.spec.url(offer.port) + offer.path)
    host = stated_host(gateway.spec, offer) or _seen_host(gateway)
    if host is None:
        raise GatewayUnknown(
            f"{gateway.name}, from which {user.name} gets its models, has no address yet",
            hint=f"`paddock up --only {gateway.name}` first; an `up` of both goes in that order",
        )
    return ModelServer(gateway.name, f"http://{host}:{gateway.spec.ports()[offer.port]}{offer.path}")


def same_machine(one: Wanted, other: Wanted) -> bool:
    """Whether both are on one machine that was there before, so that they share its loopback."""
    if not (one.place.keeps_machine and other.place.keeps_machine):
        return False
    return _address(one) == _address(other)


def stated_host(spec: AgentSpec, offer: Offer) -> str | None:
    """The address that the file itself says, as a URL has it: of what is exposed, or of the machine's card."""
    exposed = ipaddress.ip_address(spec.listens_on(offer.port))
    if not exposed.is_unspecified:
        return f"[{exposed}]" if exposed.version == 6 else str(exposed)
    card = spec.machine.net.address
    return None if card == "dhcp" else card.partition("/")[0]


def _seen_host(gateway: Wanted) -> str | None:
    address = _address(gateway)
    return None if address == _HERE else address


def _address(agent: Wanted) -> str | None:
    return agent.place.machine(agent.machine_want, agent.place.observe(agent.name)).address
