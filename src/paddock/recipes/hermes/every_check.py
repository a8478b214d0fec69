"""All checks of Hermes for `verify`."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.recipes.checks import Check
from paddock.recipes.hermes import checks, connector_checks, connectors, managed, mcp_checks
from paddock.recipes.hermes.spec import HOME, HermesSpec
from paddock.recipes.workload import Paths


def every_check(agent: HermesSpec, name: str, paths: Paths) -> Sequence[Check]:
    """Return all checks of an agent."""
    hermes_home = f"{paths.home}/{HOME}"
    if agent.image_brings_code:
        locked = managed.state_files(agent.managed, hermes_home, connectors.names(agent))
        managed_by_us = [
            checks.pinned(f"{paths.etc}/hermes", [file.path for file in locked]),
            checks.profile(hermes_home),
        ]
    else:
        managed_by_us = [checks.refusals(f"{paths.etc}/bin/hermes", _tried(agent))]
    in_image = str(agent.version) if agent.version and agent.image_brings_code else None
    return (
        *((checks.version(agent.url("api_server"), in_image),) if in_image else ()),
        *checks.messaging(name, hermes_home, frozenset(connectors.names(agent))),
        *connector_checks.proofs(agent),
        *mcp_checks.checks(agent, name, hermes_home),
        *checks.model(agent),
        checks.databases(name, hermes_home),
        *managed_by_us,
        *(checks.dashboard(name, agent.url("dashboard")) if agent.dashboard.enabled else ()),
    )


def _tried(agent: HermesSpec) -> list[Sequence[str]]:
    """Return one refused command of each group."""
    sorts = {words[0]: words for words in reversed(managed.refused(agent.managed))}
    return [sorts[word] for word in ("update", "uninstall", "gateway", "setup", "config") if word in sorts]
