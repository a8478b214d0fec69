"""What others can get at, or have got: ports, and secrets in what everyone may read."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.checks.line import Line
from paddock.checks.subject import Subject
from paddock.visible import one_line


def listening(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """Whether the agent can be reached from elsewhere where the file does not say so."""
    beyond = [(host, port) for host, port in fact["found"] if not _loopback(host)]
    unnamed = [f"{host} port {port}" for host, port in beyond if port not in subject.exposed]
    here = ", ".join(sorted({str(port) for host, port in fact["found"] if _loopback(host)})) or "none"
    named = ", ".join(sorted({str(port) for _, port in beyond}))
    well = f"exposed: {named}; on loopback: {here}" if named else f"only on loopback (ports {here})"
    yield Line.of(
        "listening",
        not unnamed,
        f"reachable from elsewhere: {', '.join(unnamed)}" if unnamed else well,
        "name it under `expose` if it should be, else end what listens there",
        fact["seconds"],
    )


def ports(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """Whether somebody else listens where the agent is to."""
    found = fact["found"]
    # Its health may be asked through somebody else, say a proxy; one that listens nowhere was to listen there.
    wanted = subject.ports if found["own"] else subject.ports | subject.health_port
    if not wanted:
        return
    others = [
        f"port {each['port']} is held by {one_line(each['name'])} (process {each['pid']}),"
        f" which is not of {subject.agent}"
        for each in found["others"]
        if each["port"] in wanted
    ]
    yield Line.of(
        "ports",
        not others,
        "\n".join(others) or f"nobody else listens on {', '.join(map(str, sorted(wanted)))}",
        f"end it, or give {subject.agent} another port",
        fact["seconds"],
    )


def _loopback(host: str) -> bool:
    address = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def leaks(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """Whether a secret stands where everyone on the machine can read it."""
    found = fact["found"]
    rest = "; the rest was not looked at, for there is too much" if found["cut_short"] else ""
    told = [f"{name} is in {one_line(', '.join(sorted(paths)[:3]))}" for name, paths in sorted(found["found"].items())]
    yield Line.of(
        "secrets.machine",
        not told,
        "\n".join(told)
        or f"none of {found['values']} in {found['looked']} files everyone can read, nor in its log{rest}",
        "take it out there, and give the service that issued it a new one",
        fact["seconds"],
    )
