"""Prepare the engine and the image on a machine, and remove a container that is no longer used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from paddock.errors import PaddockError, WorldChanged
from paddock.guests import Guest, expect
from paddock.guests.report import records
from paddock.process import CommandFailed
from paddock.recipes.workload import Paths, Workload
from paddock.runtimes import machine
from paddock.spec.agent_id import AgentId
from paddock.visible import lines

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


def get_image(guest: Guest, container: AgentContainer) -> None:
    """Load the image from its archive, or pull it. An image that the engine has already is kept."""
    image, engine = container.image, container.engine.program
    # The engine's data volume can outlive the machine, so a new machine may have the image already.
    if guest.run([engine, "image", "inspect", image.name]).ok:
        return
    if not guest.run([engine, "ps", "--quiet"]).ok:
        raise WorldChanged(f"{engine} does not work on {guest.name}")
    try:
        if image.archive is None:
            expect(guest, f"pulling {image.name}", [engine, "pull", image.name], deadline=3600)
            return
        printed = expect(guest, f"loading {image.archive}", image.load, stdin=image.archive, deadline=3600)
        told = records(printed)
        loaded, brought = dict(told)["id"], [value for name, value in told if name == "brought"]
        # A partly loaded image gets no name, so the next run loads it again.
        expect(guest, "tagging the image", [engine, "tag", loaded, image.name])
        if brought:  # a name from the archive would keep the image when no agent uses it any more
            expect(guest, "tagging the image", [engine, "image", "rm", *brought])
    except CommandFailed as error:
        where = "where the image is, and set container: {archive: FILE}" if image.archive is None else "again"
        raise PaddockError(error.message, hint=f"run `docker save IMAGE > FILE` {where}") from None


def try_image(guest: Guest, container: AgentContainer, workload: Workload) -> None:
    """Check that the image can run programs as the agent's account, before a working container is replaced."""
    try:
        container.trial(guest, workload)
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


def remove_container(guest: Guest, engine: str, agent: AgentId, formers: Sequence[AgentId], paths: Paths) -> None:
    """Remove the container of an agent from an engine that the agent no longer uses."""
    argv = machine.remove_left_container(agent, formers, engine, paths)
    expect(guest, f"removing the container of {agent.name}", argv, deadline=120)
