"""Checks of ports that others can reach, and of secrets in files that everyone can read."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.base.text import one_line
from paddock.verify.line import Line, Subject

_SSH: Final = (22, 0)  # port and uid


def listening(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """Check that other machines can reach only the ports that the file exposes."""
    beyond = [(host, port) for host, port in fact["found"] if not _loopback(host)]
    unnamed = [f"{host} port {port}" for host, port in beyond if port not in subject.exposed]
    here = ", ".join(sorted({str(port) for host, port in fact["found"] if _loopback(host)})) or "none"
    named = ", ".join(sorted({str(port) for _, port in beyond}))
    well = f"exposed: {named}; on loopback: {here}" if named else f"only on loopback (ports {here})"
    yield Line.of(
        "listening",
        not unnamed,
        f"reachable from other machines: {', '.join(unnamed)}" if unnamed else well,
        "add the port to `expose` if others may reach it, else stop the program that listens there",
        fact["seconds"],
    )


def company(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """Check that on a machine of the agent's own no other program can be reached, except ssh."""
    if not subject.own_machine:
        return
    beyond = [each for each in fact["found"] if not _loopback(each["host"]) and each["port"] not in subject.exposed]
    others = [
        f"{one_line(each['name']) or 'a program'} of uid {each['uid']} on {each['host']} port {each['port']}"
        for each in beyond
        if (each["port"], each["uid"]) != _SSH
    ]
    yield Line.of(
        "listening.machine",
        not others,
        f"reachable from other machines: {', '.join(others)}" if others else "besides the agent only ssh, of root",
        "stop the program that listens there, or add the port to `expose` if others may reach it",
        fact["seconds"],
    )


def ports(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """Check that no other program listens on the agent's ports."""
    found = fact["found"]
    # A proxy may listen on the health port. It is the agent's own port only if the agent listens nowhere else.
    wanted = subject.ports if found["own"] else subject.ports | subject.health_port
    if not wanted:
        return
    others = [
        f"port {each['port']} is held by {one_line(each['name'])} (process {each['pid']}),"
        f" which does not belong to {subject.agent}"
        for each in found["others"]
        if each["port"] in wanted
    ]
    yield Line.of(
        "ports",
        not others,
        "\n".join(others) or f"no other program listens on {', '.join(map(str, sorted(wanted)))}",
        f"stop that program, or give {subject.agent} another port",
        fact["seconds"],
    )


def _loopback(host: str) -> bool:
    address = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def leaks(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """Check that no secret is in a file that everyone on the machine can read, or in the log."""
    found = fact["found"]
    rest = "; the search was cut short, because there is too much to search" if found["cut_short"] else ""
    told = [f"{name} is in {one_line(', '.join(sorted(paths)[:3]))}" for name, paths in sorted(found["found"].items())]
    yield Line.of(
        "secrets.machine",
        not told,
        "\n".join(told)
        or f"none of {found['values']} secrets in {found['looked']} files that everyone can read, nor in the log{rest}",
        "remove the secret there, and replace it with a new one at the service that issued it",
        fact["seconds"],
    )
