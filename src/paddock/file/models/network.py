"""The key ``network`` of an agent: where it may connect to."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from paddock.base.frozen import frozen
from paddock.file.models.fields import Model

_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NUMBERS: Final = re.compile(r"[0-9./]+")
_FORMS: Final = "10.0.0.5:4000, 192.168.1.0/24, api.example.com:443 or [fd00::5]:443"

# The tags of the two forms in pydantic's locations, which are not in the file.
WORD, LIST = "[word]", "[list]"


class Egress(StrEnum):
    OPEN = "open"
    INTERNET = "internet"


@frozen
class Endpoint:
    """An address, a network or a host name, with the port that may be connected to; without a port, all of them."""

    host: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an entry of the file, such as ``10.0.0.5:4000`` or ``[fd00::/64]:443``; raise ValueError for others."""
        if "://" in text:
            raise ValueError(f"must be an address without http:// and without a path: {_FORMS}")
        host, port = _split(text)
        if "/" in host or ":" in host or _NUMBERS.fullmatch(host):
            return cls(_network(host), _port(port))
        if not _NAME.fullmatch(host) or len(host) > 253:
            raise ValueError(f"must be an address, a network or a host name: {_FORMS}")
        return cls(host.lower(), _port(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and self.port else self.host
        return f"{host}:{self.port}" if self.port else host


def _split(text: str) -> tuple[str, str | None]:
    """Return the host and the text of the port."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or ":" not in host or (rest and not rest.startswith(":")):
            raise ValueError("brackets are for an IPv6 address: [fd00::5]:443")
        return host, rest[1:] if rest else None
    if text.count(":") > 1:
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def _port(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 65535):
        raise ValueError("the port must be a number from 1 to 65535")
    return int(text)


def _network(text: str) -> str:
    """Return an address or a network in its normal form."""
    try:
        network = ipaddress.ip_network(text, strict=False)
        exact = "/" not in text or str(network.network_address) == str(ipaddress.ip_address(text.partition("/")[0]))
    except ValueError:
        raise ValueError(f"is not an IP address or network; write {_FORMS}") from None
    if not exact:
        raise ValueError("is not a network: the bits of the address after its prefix must be zero")
    if "%" in text or getattr(network.network_address, "ipv4_mapped", None):
        raise ValueError("must be a plain address, without an interface and not an IPv4 address in IPv6")
    if network.prefixlen == 0:
        raise ValueError("is every address; write egress: open instead of the list")
    return str(network) if network.num_addresses > 1 else str(network.network_address)


def _entry(text: str) -> str:
    return str(Endpoint.parse(text))


def _word(value: Any) -> Any:
    if isinstance(value, str) and value in list(Egress):
        return Egress(value)
    raise ValueError("must be open, internet or a list, like [10.0.0.5:4000, api.example.com:443]")


def _form(value: Any) -> str:
    return LIST if isinstance(value, list | tuple) else WORD


class NetworkSpec(Model):
    """What the agent may reach over the network."""

    egress: Annotated[
        Annotated[Egress, BeforeValidator(_word), Tag(WORD)]
        | Annotated[list[Annotated[str, AfterValidator(_entry)]], Tag(LIST)],
        Discriminator(_form),
        WithJsonSchema(
            {"anyOf": [{"enum": list(Egress), "type": "string"}, {"items": {"type": "string"}, "type": "array"}]}
        ),
    ] = Field(
        Egress.OPEN,
        description="open: everything; internet: no private address, node or other agent; or a list of addresses and"
        " ports; what the file itself names, like the model's URL, is always included",
    )

    @property
    def closed(self) -> bool:
        """Whether anything is forbidden."""
        return self.egress is not Egress.OPEN

    @property
    def listed(self) -> list[Endpoint] | None:
        """The entries of the list, if the file has one."""
        return None if isinstance(self.egress, Egress) else [Endpoint.parse(entry) for entry in self.egress]
