"""Facts about an agent's machine for other programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from paddock.run.deployment import Deployment
from paddock.run.resolve import locate
from paddock.visible import one_line

Values = Mapping[str, str | int | None]


def outputs(agent: Deployment) -> Values:
    """Return number, host name and address of the machine; None for those it does not have."""
    want = locate(agent).machine_want
    machine = agent.place.machine(want, agent.place.observed(want) or agent.place.observe(want))
    return {"vmid": machine.number, "hostname": machine.hostname, "address": machine.address}


def as_text(found: Mapping[str, Values]) -> Iterator[str]:
    """Yield lines for people."""
    for agent, values in found.items():
        yield from (
            f"{agent}.{name} = {'-' if value is None else one_line(str(value))}" for name, value in values.items()
        )


def as_env(found: Mapping[str, Values]) -> Iterator[str]:
    """Yield the lines of an env file, without values that are None."""
    for agent, values in found.items():
        prefix = re.sub(r"[^A-Z0-9]", "_", agent.upper())
        yield from (
            f"{prefix}_{name.upper()}={one_line(str(value))}" for name, value in values.items() if value is not None
        )


def as_terraform(found: Mapping[str, Values]) -> Iterator[str]:
    """Yield the lines of a file for Terraform: one local value, laid out as `terraform fmt` does."""
    yield "locals {"
    yield "  paddock = {"
    for agent, values in found.items():
        yield f"    {_hcl(agent)} = {{"
        width = max(map(len, values))
        yield from (f"      {name:{width}} = {_hcl(value)}" for name, value in values.items())
        yield "    }"
    yield "  }"
    yield "}"


def _hcl(value: str | int | None) -> str:
    """Return a value as an expression of Terraform. Nothing in a text begins an expression of its own."""
    plain = one_line(value) if isinstance(value, str) else value
    return json.dumps(plain, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")
