"""What Docker and Podman do differently; everything else is the same to both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from paddock.spec.models import RuntimeName

ROOT: Final = "0:0"  # who starts in a container; with users of its own it would be the account


@dataclass(frozen=True)
class Dialect:
    """One engine's command line."""

    program: str
    packages: tuple[str, ...]  # that bring it on Debian
    service: str | None  # the unit of its daemon
    data: str  # where it keeps images and containers
    info: str  # the format of its `info` that tells the storage driver, and whether containers outlive the daemon
    full_names: bool  # it looks an image up nowhere unless the name says where
    asks_health: bool  # by itself, now and then
    users: str | None = None  # which user of a container is which one of the machine, where that is not the same

    def without_root(self, home: str, uid: int, gid: int) -> Dialect:
        """The same engine in an account of the machine, whose files are the agent's own in the container."""
        return replace(
            self,
            packages=(*self.packages, "uidmap"),
            data=f"{home}/.local/share/containers",
            users=f"keep-id:uid={uid},gid={gid}",
        )

    def reference(self, image: str) -> str:
        """The image's name as this engine finds it; where a digest says which one it is, a tag says nothing more."""
        name, at, digest = image.partition("@")
        if at and ":" in name.rpartition("/")[2]:
            image = f"{name.rpartition(':')[0]}@{digest}"
        first, _, rest = image.partition("/")
        if not self.full_names or (rest and ("." in first or ":" in first or first == "localhost")):
            return image
        return f"docker.io/{image}" if rest else f"docker.io/library/{image}"


_DOCKER: Final = Dialect(
    "docker",
    ("docker.io",),
    "docker.service",
    "/var/lib/docker",
    "{{.Driver}} {{.LiveRestoreEnabled}}",
    full_names=False,
    asks_health=True,
)
_PODMAN: Final = Dialect(
    # With runc, because crun, which Debian would take, starts nothing where cgroups are of both versions.
    "podman",
    ("podman", "runc"),
    None,
    "/var/lib/containers",
    "{{.Store.GraphDriverName}} false",
    full_names=True,
    # It would have a timer of systemd ask, and wait for the end of that timer while systemd waits for its own: no
    # machine could shut down.
    asks_health=False,
)


def dialect_of(runtime: RuntimeName) -> Dialect:
    """Return the dialect of a runtime that is an engine."""
    return {RuntimeName.DOCKER: _DOCKER, RuntimeName.PODMAN: _PODMAN}[runtime]
