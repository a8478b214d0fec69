"""Where an agent may connect to: a program of root on the machine that keeps a table of nftables for its account."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import Final

from paddock.recipes.workload import Workload
from paddock.runtimes.egress.surroundings import is_address
from paddock.runtimes.program import program
from paddock.spec.egress import Endpoint, NetworkSpec
from paddock.spec.models import AgentSpec

PACKAGE: Final = "nftables"  # the Debian package with the program `nft`
GUARD: Final = "paddock.runtimes.egress.guard"


def files(
    table: str, spec: AgentSpec, user: str | int, workload: Workload, neighbours: Sequence[str]
) -> dict[str, str]:
    """Return the files of a bundle for an agent whose connections are limited: two programs and a configuration.

    ``user`` is the name or the number of the agent's account on the machine. ``neighbours`` are hosts that neither the
    internet nor a host name includes.
    """
    listed = spec.network.listed
    endpoints = dict.fromkeys((*(listed or ()), *workload.reaches))
    configuration = {
        "table": table,
        "user": user,
        "internet": listed is None,
        "allowed": [[endpoint.host, endpoint.port] for endpoint in endpoints],
        "denied": list(neighbours),
        "names": asks_names(spec.network, workload.reaches),
    }
    families = (resources.files(__package__) / "families.py").read_text(encoding="utf-8")
    configured = json.dumps(configuration, indent=2) + "\n"
    return {"egress.json": configured, "egress.py": program(GUARD), "families.py": families}


def asks_names(network: NetworkSpec, reaches: Sequence[Endpoint]) -> bool:
    """Whether name servers are open to the agent.

    An agent that reaches only addresses asks for no names, and a name server is a way out of the machine.
    """
    listed = network.listed
    return listed is None or any(not is_address(endpoint.host) for endpoint in (*listed, *reaches))
