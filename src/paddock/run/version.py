"""The version of an agent's code that is on its machine, which may differ from the one in the file."""

from __future__ import annotations

from paddock.guests import expect
from paddock.guests.report import records
from paddock.recipes.workload import Verdict
from paddock.run.observe import Observation, reach
from paddock.run.resolve import Located
from paddock.runtimes import machine
from paddock.visible import one_line


def running_version(agent: Located, seen: Observation, health: Verdict | None) -> str | None:
    """Return the version of the code in the agent's current bundle; None if it is not known.

    For an image that contains the code, it is what the agent says of itself when it is asked for its health.
    """
    if agent.spec.image_brings_code:
        return one_line(health.version, 40) if health and health.version else None
    wanted = agent.recipe.distribution(agent.spec, agent.folder)
    if wanted is None or seen.agent is None or not seen.agent.installed:
        return None
    argv = machine.report_version(agent.paths, wanted.name)
    return dict(records(expect(reach(agent, seen), "reading the version", argv))).get("version")


def version_in_file(agent: Located) -> str | None:
    """Return the version that the file asks for; None if it asks for none."""
    if agent.spec.image_brings_code:
        asked = getattr(agent.spec, "version", None)
        return str(asked) if asked else None
    wanted = agent.recipe.distribution(agent.spec, agent.folder)
    return wanted.version if wanted else None
