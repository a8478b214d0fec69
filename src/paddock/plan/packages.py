"""The plan for packages of the distribution: install what is missing, or name it where nothing can be installed."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from paddock.plan.actions import InstallPackages
from paddock.plan.step import Phase, Refusal, Step

_NONE: Final = "none"  # the machine has no program that installs packages


def steps(missing: Set[str], installer: str) -> Iterator[Step]:
    """Yield the step that installs missing packages, where they can be installed."""
    if missing and installer != _NONE:
        names = sorted(missing)
        title = f"install packages: {', '.join(names)}"
        yield Step("packages.install", title, "they are not installed", InstallPackages(names), phase=Phase.SOFTWARE)


def refusal(agent: str, missing: Set[str], installer: str) -> Refusal | None:
    """Return the refusal for packages that the agent needs and that cannot be installed, or None."""
    if not missing or installer != _NONE:
        return None
    return Refusal(
        f"{agent} needs {', '.join(sorted(missing))}, and its machine has neither apt-get nor dnf to install packages",
        "install them in the machine's own way; Paddock looks for the program that Debian's package brings"
        " (nft for nftables), or for one with the package's name",
        code="packages.missing",
    )


def notes(agent: str, missing: Set[str], installer: str) -> Iterator[str]:
    """Yield a note about packages that the agent can run without and that cannot be installed."""
    if missing and installer == _NONE:
        yield (
            f"the machine lacks {', '.join(sorted(missing))}, and has neither apt-get nor dnf to install packages:"
            f" {agent} works without them, and better with them"
        )
