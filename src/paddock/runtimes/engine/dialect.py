"""What Docker and Podman do differently; everything else is the same to both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paddock.spec.models import RuntimeName


@dataclass(frozen=True)
class Dialect:
    """One engine's command line."""

    program: str
    packages: tuple[str, ...]  # that bring it on Debian
    service: str | None  # the unit of its daemon
    data: str  # where it keeps images and containers
    driver: str  # what of its `info` names the storage driver
    full_names: bool  # it looks an image up nowhere unless the name says where

    def reference(self, image: str) -> str:
        """The image's name as this engine finds it."""
        first, _, rest = image.partition("/")
        if not self.full_names or (rest and ("." in first or ":" in first or first == "localhost")):
            return image
        return f"docker.io/{image}" if rest else f"docker.io/library/{image}"


_DOCKER: Final = Dialect("docker", ("docker.io",), "docker.service", "/var/lib/docker", "{{.Driver}}", full_names=False)
_PODMAN: Final = Dialect(
    "podman", ("podman",), None, "/var/lib/containers", "{{.Store.GraphDriverName}}", full_names=True
)


def dialect_of(runtime: RuntimeName) -> Dialect:
    """Return the dialect of a runtime that is an engine."""
    return {RuntimeName.DOCKER: _DOCKER, RuntimeName.PODMAN: _PODMAN}[runtime]
