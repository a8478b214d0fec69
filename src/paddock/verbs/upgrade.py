"""The verbs `upgrade` and `rollback`: choose a version and write it into the file; `up` does the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from paddock.base.errors import BadInput, PaddockError, Refused
from paddock.base.frozen import frozen
from paddock.core import converge, version
from paddock.core import version as upgrading
from paddock.core.deployment import Deployment
from paddock.core.observe import expect_own_id, observe, reach
from paddock.core.resolve import Asked, locate, resolve
from paddock.file import edit
from paddock.file.edit import Rewritten, Said
from paddock.plan.step import Plan
from paddock.plan.version import Upgrade
from paddock.verbs import memory


def target(agent: Deployment, asked: str | None) -> str | None:
    """Return the version to upgrade to: the one asked for, or the newest that there is a lock for.

    None for an agent whose image brings the code: the image is pulled again.
    """
    if agent.spec.image_brings_code and asked is None:
        return None
    if agent.spec.image_brings_code:
        raise BadInput(
            f"the image {agent.spec.container.image} brings the code of {agent.name}",
            hint="write another image into the file, and run `paddock up`",
        )
    current = getattr(agent.spec, "version", None)
    if current is None:
        raise BadInput(
            f"{agent.name} has no version in the file that could change",
            hint="for another package, image or distribution, change the file and run `paddock up`",
        )
    found = agent.recipe.versions(agent.spec, agent.folder)
    if asked is None and not found:
        raise BadInput(f"there is no lock for {agent.name}", hint="`paddock template lock` creates one; see its help")
    return asked or found[-1]


def said(version: str) -> Said:
    """Return a version as keys of the file.

    An image from an archive has a name that only its machine knows, and the version of another image than the file's
    is not known.
    """
    image = upgrading.image_of(version)
    of_image: Said = {"container": {"image": image, "archive": None}, "version": None}
    return of_image if image else {"version": version, "package": None}


def said_before(agent: Deployment, last: Upgrade) -> Said:
    """Return the version from before an upgrade as keys of the file, with its runtime and base."""
    if upgrading.image_of(last.before) or not upgrading.moves_to(agent, last.housing):
        return said(last.before)
    base: Said = {"container": {"image": None, "base": last.housing.base, "archive": None}}
    return {**said(last.before), **base}


def upgrade(agent: Deployment, rewritten: Rewritten | None, files: Sequence[Path]) -> str:
    """Bring an agent up with the version that the file has by now; return a line about the result.

    If nothing was changed, or the agent went back, the file gets its version from before.
    """
    try:
        return converge.up(agent, Asked(pull=True))
    except upgrading.RolledBack as failure:
        _set_back(agent, failure.version, rewritten, files)
        raise
    except (BadInput, Refused):
        if rewritten:
            rewritten.undo()
        raise


def _set_back(agent: Deployment, version: str, rewritten: Rewritten | None, files: Sequence[Path]) -> None:
    if rewritten is None or not rewritten.undo():
        rewritten = edit.write_into(files, agent.name, said(version))
    agent.reporter.say(f"{rewritten.path} says {version}")


def expect_version(agent: Deployment, version: str) -> None:
    """Raise if the agent does not have the version that was written into the file."""
    if str(getattr(agent.spec, "version", "")) != version:
        raise PaddockError(
            f"something overrides the version of {agent.name} in the file",
            hint="remove the version from --set, and from files that come later",
        )


@frozen
class Rollback:
    """A planned rollback, for a person to agree to."""

    last: Upgrade
    plan: Plan
    lost: str  # the time and the messages that the agent would forget, in words


def planned(agent: Deployment) -> Rollback:
    """Observe an agent and plan to go back to the version and the state from before its last upgrade."""
    located = locate(agent)
    seen = expect_own_id(located, observe(located))
    found = seen.agent
    if found is None or found.upgrade is None:
        reach(located, seen)
        raise BadInput(f"{agent.name} has no upgrade to go back from")
    last = replace(found.upgrade, back=True)
    if found.ran != last.after and not found.goes_back:
        raise BadInput(f"{agent.name} runs with {found.ran}: the upgrade to {last.after} did not take place")
    before = resolve(locate(version.as_before(agent, last)))
    plan = converge.plan_up(before, before.want(), replace(seen, agent=replace(found, upgrade=last)))
    return Rollback(last, plan, memory.since(located, reach(located, seen), last.at))


def rollback(agent: Deployment, last: Upgrade, rewrite: Callable[[], Callable[[], object]]) -> str:
    """Go back from an upgrade; return a line about the result.

    ``rewrite`` writes the old version into the file, and returns what undoes that. It is called after the machine has
    recorded where the agent goes: from then on a plain `up` completes the rollback.
    """
    version.begin_rollback(agent)
    undo = rewrite()
    try:
        converge.up(version.as_version(agent, last.before, last.housing))
    except version.Stays:
        undo()
        raise
    return f"{agent.name}: runs with {last.before} and its state from before {last.after}; what it had is saved"
