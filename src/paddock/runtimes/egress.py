"""Where an agent may connect to: a program of root on the machine that keeps a table of nftables for its account."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from paddock.channels.sent import program, source
from paddock.file.models.network import Endpoint, NetworkSpec
from paddock.file.models.whole import AgentSpec
from paddock.kinds.workload import Workload
from paddock.onboard.egress.surroundings import is_address

PACKAGE: Final = "nftables"  # the Debian package with the program `nft`
GUARD: Final = "paddock.onboard.egress.guard"
# Its package in bundles: with another name, each agent with limited connections would restart.
DEPLOYED: Final = {"paddock.onboard.egress": "paddock.runtimes.egress"}


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
    families = source("paddock.onboard.egress.families")
    configured = json.dumps(configuration, indent=2) + "\n"
    return {"egress.json": configured, "egress.py": program(GUARD, DEPLOYED), "families.py": families}


def asks_names(network: NetworkSpec, reaches: Sequence[Endpoint]) -> bool:
    """Whether name servers are open to the agent.

    An agent that reaches only addresses asks for no names, and a name server is a way out of the machine.
    """
    listed = network.listed
    return listed is None or any(not is_address(endpoint.host) for endpoint in (*listed, *reaches))
