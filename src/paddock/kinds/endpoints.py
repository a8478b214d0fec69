"""The endpoints that a file names in URLs, and the offer of a model gateway to other agents."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from paddock.base.frozen import frozen
from paddock.file.models.network import Endpoint

_URL: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s]+")
_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def named_in(*values: Any) -> tuple[Endpoint, ...]:
    """Return the endpoints of all URLs in these values, which may be nested. URLs without a known port are left out."""
    return tuple(dict.fromkeys(endpoint for value in values for endpoint in _endpoints(value)))


def _endpoints(value: Any) -> Iterator[Endpoint]:
    match value:
        case dict():
            for each in value.values():
                yield from _endpoints(each)
        case list() | tuple():
            for each in value:
                yield from _endpoints(each)
        case str() if _URL.fullmatch(value):
            yield from _endpoint(value)


def _endpoint(url: str) -> Iterator[Endpoint]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
        if host and port:
            yield Endpoint.parse(f"{_bracketed(host)}:{port}")
    except ValueError:
        return  # a host that is filled in later, like ${HOST}, is not named here


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host


@frozen
class Offer:
    """The models that an agent serves to others at one of its named ports."""

    port: str
    path: str
    key: str  # name of the secret that gives access


@frozen
class ModelServer:
    """A model gateway, with the address for one of its users."""

    name: str
    url: str
    key: str = "LITELLM_API_KEY"  # name of the secret that the user sends
