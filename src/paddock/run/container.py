"""Engine and image on a machine: what comes before an agent's container."""

from __future__ import annotations

from paddock.errors import PaddockError
from paddock.guests import Guest, expect
from paddock.process import CommandFailed
from paddock.runtimes import Container


def start_engine(guest: Guest, service: str) -> None:
    """Start the engine's daemon, now and at every boot."""
    argv = ["systemctl", "enable", "--now", service]
    result = guest.run(argv, deadline=120)
    if not result.ok:
        told = guest.run(["journalctl", "--quiet", "--unit", service, "--output", "cat", "--lines", "3"]).out.strip()
        raise PaddockError(f"{service} does not start on {guest.name}:\n{told or result.err.strip()}")


def get_image(guest: Guest, container: Container) -> None:
    """Load the image from its archive, or pull it."""
    image = container.image
    # A machine that is new to us may have it all the same: what an engine keeps can outlive the machine.
    if guest.run([container.engine, "image", "inspect", image.name]).ok:
        return
    try:
        if image.archive is None:
            expect(guest, f"pulling {image.name}", [container.engine, "pull", image.name], deadline=3600)
            return
        printed = expect(guest, f"loading {image.archive}", container.load(), stdin=image.archive, deadline=3600)
        # Named only now: what was cut off on its way has no name, and the next run loads it again.
        expect(guest, "naming the image", [container.engine, "tag", printed.split()[-1], image.name])
    except CommandFailed as error:
        if "no space left" in error.message:
            raise PaddockError(
                f"{guest.name} has no room for the image {image.name}",
                hint=f"`{container.engine} system df` on it shows what takes it",
            ) from None
        if image.archive is None:
            hint = "without a registry: docker save IMAGE > FILE where it is, and container: {archive: FILE}"
            raise PaddockError(error.message, hint=hint) from None
        raise
