"""Engine and image on a machine: what comes before an agent's container."""

from __future__ import annotations

from typing import Final

from paddock.errors import PaddockError, WorldChanged
from paddock.guests import Guest, expect
from paddock.guests.report import records
from paddock.process import CommandFailed
from paddock.recipes.workload import Paths, Workload
from paddock.runtimes import AgentContainer, machine
from paddock.visible import lines

_REFUSED: Final = 78  # how scripts in a container end that have said what is wrong
_HELP: Final = "See 'docker"  # what Docker says last, whatever is wrong


def start_engine(guest: Guest, service: str) -> None:
    """Start the engine's daemon, now and at every boot."""
    result = guest.run(machine.start_service(service), deadline=120)
    if not result.ok:
        # Its own words, without what systemd says about it.
        told = guest.run(machine.service_log(service)).out.strip() or result.err.strip()
        hint = f"repair it on the machine (`systemctl status {service}`), then `paddock up` goes on"
        raise PaddockError(f"{service} does not start on {guest.name}:\n{told}", hint=hint)


def get_image(guest: Guest, container: AgentContainer) -> None:
    """Load the image from its archive, or pull it."""
    image = container.image
    # A machine that is new to us may have it all the same: what an engine keeps can outlive the machine.
    if guest.run([container.engine, "image", "inspect", image.name]).ok:
        return
    if not guest.run([container.engine, "ps", "--quiet"]).ok:
        raise WorldChanged(f"{container.engine} does not work on {guest.name}")
    try:
        if image.archive is None:
            expect(guest, f"pulling {image.name}", [container.engine, "pull", image.name], deadline=3600)
            return
        printed = expect(guest, f"loading {image.archive}", container.load(), stdin=image.archive, deadline=3600)
        told = records(printed)
        loaded, brought = dict(told)["id"], [value for name, value in told if name == "brought"]
        # Named only now: what was cut off on its way has no name, and the next run loads it again.
        expect(guest, "naming the image", [container.engine, "tag", loaded, image.name])
        if brought:  # would keep it when nobody needs it any more
            expect(guest, "naming the image", [container.engine, "image", "rm", *brought])
    except CommandFailed as error:
        where = "where it is, and container: {archive: FILE}" if image.archive is None else "anew"
        raise PaddockError(error.message, hint=f"docker save IMAGE > FILE {where}") from None


def try_image(guest: Guest, container: AgentContainer, workload: Workload) -> None:
    """See that programs run in the image, and the agent's account can be had in it, before anything is given up."""
    try:
        expect(container.sample(guest), "trying", container.trial(workload), deadline=300)
    except CommandFailed as failure:
        told = [line for line in lines(failure.result.err) if not line.startswith(_HELP)]
        if container.image.archive:  # what cannot be used takes no room; one that is in use stays
            guest.run([container.engine, "image", "rm", container.image.name])
        said = told[-1] if told else f"code {failure.result.code}"
        if failure.result.code == _REFUSED:
            raise PaddockError(said.removeprefix("paddock: ")) from None
        raise PaddockError(
            f"nothing can be run in the image {container.image.name}: {said}",
            hint="it needs /bin/sh, setpriv or python3, and to be for the processor of its machine",
        ) from None


def remove_container(guest: Guest, engine: str, agent: str, paths: Paths) -> None:
    """Remove an agent's container from an engine that it has left."""
    argv = machine.remove_left_container(agent, engine, paths)
    expect(guest, f"removing the container of {agent}", argv, deadline=120)
