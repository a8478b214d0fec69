"""Checks of the agent's connections: forbidden addresses are closed to it, and allowed addresses are open."""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from paddock.file.models.network import Endpoint, NetworkSpec
from paddock.kinds.checks import Check, Connect
from paddock.kinds.workload import Verdict
from paddock.runtimes.egress import asks_names
from paddock.verify.line import Line, Outcome

_METADATA: Final = Endpoint("169.254.169.254", 80)  # where clouds tell a machine its credentials
_SSH: Final = 22
_MOST: Final = 3  # endpoints that are tried
_BY_KERNEL: Final = ("protocol 256", "family 43")  # both are SMC, whose connections the kernel opens
_UNSUPPORTED: Final = {errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.EAFNOSUPPORT}


def checks(agent: str, network: NetworkSpec, reaches: Sequence[Endpoint], hosts: Sequence[str]) -> Iterator[Check]:
    """Yield the checks of an agent whose connections are limited.

    ``reaches`` are endpoints that the file names, ``hosts`` are those around the agent that it must not reach.
    """
    if not network.closed:
        return
    whole = [endpoint.host for endpoint in network.listed or () if endpoint.port is None]
    others = [Endpoint(host, _SSH) for host in hosts if host not in {endpoint.host for endpoint in reaches}]
    forbidden = [each for each in (_METADATA, *others[:_MOST]) if not any(_includes(entry, each) for entry in whole)]
    if forbidden:
        hint = f"the rules are not loaded: `paddock up`, or on the machine: systemctl restart 'paddock-{agent}.egress'"
        yield Check("egress.closed", Connect(_pairs(forbidden)), _closed, hint, quick=True)
        yield Check("egress.kernel", Connect(_pairs(forbidden), kernel=True), _closed_to_the_kernel, hint)
    named = [*reaches, *(network.listed or ())]
    allowed = [endpoint for endpoint in named if endpoint.port is not None and "/" not in endpoint.host][:_MOST]
    hint = f"the machine may not resolve the name: `journalctl -u 'paddock-{agent}.egress'` there tells why"
    if allowed or asks_names(network, reaches):
        yield Check("egress.open", Connect(_pairs(allowed)), _open, hint)


def lines(limited: bool) -> Iterator[Line]:
    """Yield a line that reports unlimited connections of an agent."""
    if not limited:
        evidence = "open: the agent may connect to every address; network: {egress: internet} closes private ones"
        yield Line("egress.closed", Outcome.UNAVAILABLE, evidence)


def _pairs(endpoints: Sequence[Endpoint]) -> list[tuple[str, int]]:
    return [(endpoint.host, endpoint.port or _SSH) for endpoint in endpoints]


def _includes(entry: str, endpoint: Endpoint) -> bool:
    try:
        return ipaddress.ip_address(endpoint.host) in ipaddress.ip_network(entry)
    except ValueError:
        return entry == endpoint.host


def _closed(found: Any) -> Verdict:
    """Fail if a datagram was sent or a connection was made: the filter refuses both at once."""
    reached = [_shown(each) for each in found if each["sent"] is None or each["connected"] is None]
    if reached:
        return Verdict(False, f"the agent can send to {', '.join(reached)}")
    return Verdict(True, f"closed to the agent: {', '.join(map(_shown, found))}")


def _closed_to_the_kernel(found: Any) -> Verdict:
    """Fail if the kernel has made a connection for the agent."""
    reached = [f"{_shown(each)} by {way}" for each in found for way in _BY_KERNEL if each[way] is None]
    if reached:
        return Verdict(False, f"the kernel connects the agent to {', '.join(reached)}")
    ways = [f"{way} {_why(each[way] for each in found)}" for way in _BY_KERNEL]
    return Verdict(True, f"the kernel connects the agent to nothing that is closed to it: {', '.join(ways)}")


def _why(errors: Iterable[int]) -> str:
    return "is not supported" if set(errors) <= _UNSUPPORTED else "is refused"


def _open(found: Any) -> Verdict:
    """Fail if the filter refuses a datagram. A server that does not answer fails its own check."""
    refused = [_shown(each) for each in found if each["sent"] == errno.EPERM]
    if refused:
        return Verdict(False, f"the file names it, but it is closed to the agent: {', '.join(refused)}")
    silent = [_shown(each) for each in found if each["connected"] is not None]
    rest = f"; no connection to {', '.join(silent)}" if silent else ""
    return Verdict(True, f"open to the agent: {', '.join(map(_shown, found)) or 'nothing was tried'}{rest}")


def _shown(each: Mapping[str, Any]) -> str:
    return f"{each['host']} port {each['port']}"
