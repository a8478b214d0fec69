"""Packages and code that an agent needs on a machine before it is configured."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from paddock.frozen import frozen
from paddock.guests import Guest, expect
from paddock.recipes.code import CodeTree
from paddock.runtimes import codetree, machine


@frozen
class TemplateContents:
    """The packages and the code tree that a template contains besides its base."""

    packages: Sequence[str]
    tree: CodeTree | None
    added: Sequence[str] = ()  # packages that are installed on each machine instead
    optional: Sequence[str] = ()  # of the packages, those that the agent can run without

    @property
    def id(self) -> str:
        """The hash that names these contents."""
        words = [*sorted(self.packages), self.tree.id if self.tree else "-"]
        return hashlib.sha256("\n".join(words).encode()).hexdigest()

    def put_into(self, guest: Guest, store: str, programs: Sequence[str]) -> str:
        """Install everything and return the manifest: each package of the machine with its version.

        A missing program is an error, because machines made from the template would not work.
        """
        if self.packages:
            install_packages(guest, self.packages)
        if self.tree:
            codetree.install(guest, self.tree, store)
        if programs:
            expect(guest, "checking the template", machine.require_programs(programs))
        return expect(guest, "finishing the template", machine.finish_template())


def install_packages(guest: Guest, packages: Sequence[str]) -> None:
    """Install the distribution's packages."""
    expect(guest, "installing packages", machine.install_packages(packages), deadline=1800)
