"""Throwaway containers: to build code with the agent's image, and to try the image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from paddock.frozen import frozen
from paddock.guests import Guest
from paddock.process import Pipes, Result


@frozen
class Throwaway:
    """A guest that runs each program in a new container of an image, with one folder of the machine mounted."""

    machine: Guest
    engine: str
    image: str
    folder: str | None

    @property
    def name(self) -> str:
        return f"the image {self.image}"

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        return self.machine.run(self._inside(argv), stdin=stdin, deadline=deadline)

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        return self.machine.attach(self._inside(argv), terminal=terminal)

    def stream(self, argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None]) -> int:
        return self.machine.stream(self._inside(argv), out, err)

    def piped(self, argv: Sequence[str]) -> AbstractContextManager[Pipes]:
        return self.machine.piped(self._inside(argv))

    def forward(self, local: int, port: int) -> int:
        return self.machine.forward(local, port)

    def _inside(self, argv: Sequence[str]) -> list[str]:
        options = ["--rm", "--interactive", "--network", "none", "--env", "THROWAWAY=yes"]
        volume = ["--volume", f"{self.folder}:{self.folder}"] if self.folder else []
        run = [self.engine, "run", *options, *volume, "--entrypoint", argv[0], self.image, *argv[1:]]
        # Docker creates a missing folder, Podman does not.
        made = ["sh", "-c", 'umask 022 && mkdir -p "$0" && exec "$@"', self.folder] if self.folder else []
        return [*made, *run]
