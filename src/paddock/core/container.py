"""Prepare what an agent runs in: packages and code on its machine, its engine and its image."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from paddock.base.errors import PaddockError, WorldChanged
from paddock.base.frozen import frozen
from paddock.base.process import CommandFailed
from paddock.base.text import lines
from paddock.channels import Guest, expect
from paddock.channels.onboard import ask
from paddock.kinds.code import CodeTree
from paddock.kinds.workload import Workload
from paddock.onboard.code.packages import FinishTemplate
from paddock.onboard.engine.images import NameImage
from paddock.plan.container import Image
from paddock.runtimes import machine
from paddock.runtimes.code import tree as codetree

if TYPE_CHECKING:
    from paddock.runtimes.engine.container import AgentContainer


_REFUSED: Final = 78  # the exit code of scripts that have printed the reason
_HELP: Final = "See 'docker"  # Docker ends every error with it


def start_engine(guest: Guest, service: str) -> None:
    """Start the engine's daemon now and at every boot."""
    result = guest.run(machine.start_service(service), deadline=120)
    if not result.ok:
        # The daemon's own messages, without those of systemd.
        told = guest.run(machine.service_log(service)).out.strip() or result.err.strip()
        hint = f"repair the service on the machine (`systemctl status {service}`), then run `paddock up` again"
        raise PaddockError(f"{service} does not start on {guest.name}:\n{told}", hint=hint)


@frozen
class Pulled:
    """The result of a pull."""

    before: Image | None  # that the agent's container was created from; None without a container
    after: Image  # that the name means now

    @property
    def changed(self) -> bool:
        return self.before is None or self.before.id != self.after.id


def pull_image(guest: Guest, container: AgentContainer) -> Pulled:
    """Pull the image, also if the engine has one of that name. The container and its image stay."""
    name = container.image.name
    try:
        return ask(guest, f"pulling {name}", container.pull(), deadline=3600, into=Pulled)
    except CommandFailed as error:
        hint = "where the image is, run `docker save IMAGE > FILE`, and set container: {archive: FILE}"
        raise PaddockError(error.message, hint=hint) from None


def get_image(guest: Guest, container: AgentContainer) -> None:
    """Load the image from its archive, or pull it. An image that the engine has already is kept."""
    image, engine = container.image, container.engine.program
    # The engine's data volume can outlive the machine, so a new machine may have the image already.
    if guest.run([engine, "image", "inspect", image.name]).ok:
        return
    if not guest.run([engine, "ps", "--quiet"]).ok:
        raise WorldChanged(f"{engine} does not work on {guest.name}")
    if image.archive is None:
        pull_image(guest, container)
        return
    try:
        known = lines(expect(guest, "listing the images", [engine, "images", "--format", "{{.Repository}}:{{.Tag}}"]))
        printed = expect(guest, f"loading {image.archive}", image.load, stdin=image.archive, deadline=3600)
        # A partly loaded image gets no name, so the next run loads it again.
        ask(guest, "tagging the image", NameImage(engine, _loaded(printed), image.name, tuple(known)))
    except CommandFailed as error:
        raise PaddockError(error.message, hint="run `docker save IMAGE > FILE` again") from None


def usable_image(guest: Guest, container: AgentContainer, tree: CodeTree | None) -> str:
    """Return the image to run: that of the file, or one that Paddock makes from it because it has no Python.

    The image of the file is not changed.
    """
    if tree is None:
        return container.image.name
    what = f"looking for Python in {container.image.name}"
    return ask(guest, what, container.base(tree.pythons), deadline=1000, into=str)


def try_image(guest: Guest, container: AgentContainer, image: str, workload: Workload) -> None:
    """Check that the image can run programs as the agent's account, before a working container is replaced."""
    try:
        container.trial(guest, image, workload)
    except CommandFailed as failure:
        told = [line for line in lines(failure.result.err) if not line.startswith(_HELP)]
        if container.image.archive:  # an unusable image takes no space; the engine keeps an image that is in use
            guest.run([container.engine.program, "image", "rm", container.image.name])
        said = told[-1] if told else f"code {failure.result.code}"
        if failure.result.code == _REFUSED:
            raise PaddockError(said.removeprefix("paddock: ")) from None
        raise PaddockError(
            f"no program runs in the image {container.image.name}: {said}",
            hint="the image needs /bin/sh, and setpriv or python3, and must be built for the machine's processor",
        ) from None


def _loaded(printed: str) -> tuple[str, ...]:
    """Return what an engine has loaded: names, or an id. `import` prints the id alone."""
    named = [line.partition(": ")[2].strip() for line in lines(printed) if line.startswith("Loaded image")]
    return tuple(named or lines(printed)[-1:])


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
        return ask(guest, "finishing the template", FinishTemplate(tuple(programs)), deadline=300, into=str)


def install_packages(guest: Guest, packages: Sequence[str]) -> None:
    """Install the distribution's packages."""
    expect(guest, "installing packages", machine.install_packages(packages), deadline=1800)
