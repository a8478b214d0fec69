"""The differences between Docker and Podman."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paddock.base.frozen import frozen
from paddock.file.models.whole import RuntimeName

ROOT: Final = "0:0"  # the user of the first process; a user namespace would make it the account


@frozen
class Dialect:
    """One engine: its command line, packages and daemon."""

    program: str
    packages: tuple[str, ...]  # Debian packages that install it
    service: str | None  # the unit of its daemon; None if it has no daemon
    data: str  # where it keeps images and containers
    info: str  # the `info` format that prints the storage driver, and whether containers outlive the daemon
    full_names: bool  # image names must include the registry
    asks_health: bool  # runs health commands on its own
    log: tuple[str, ...]  # options with which `ENGINE logs` shows the last megabytes of the agent's output
    users: str | None = None  # how users of the container map to users of the machine, if they differ

    def without_root(self, home: str, uid: int, gid: int) -> Dialect:
        """Return the engine as an account without root runs it. The account is the agent's user in the container."""
        return replace(
            self,
            packages=(*self.packages, "uidmap"),
            data=f"{home}/.local/share/containers",
            users=f"keep-id:uid={uid},gid={gid}",
        )

    def reference(self, image: str) -> str:
        """Return the image's name in the form that this engine needs. A tag is dropped if there is a digest."""
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
    log=("--log-driver", "local", "--log-opt", "max-size=10m", "--log-opt", "max-file=2"),
)
_PODMAN: Final = Dialect(
    # With runc: crun, Debian's default, cannot start containers on a machine with both cgroup versions.
    "podman",
    ("podman", "runc"),
    None,
    "/var/lib/containers",
    "{{.Store.GraphDriverName}} false",
    full_names=True,
    # Podman runs health commands by a systemd timer. At shutdown it waits for the timer while systemd waits for
    # Podman, and the machine never stops.
    asks_health=False,
    log=("--log-driver", "k8s-file", "--log-opt", "max-size=10mb"),
)


def dialect_of(runtime: RuntimeName) -> Dialect:
    """Return the dialect of the runtime docker or podman."""
    return {RuntimeName.DOCKER: _DOCKER, RuntimeName.PODMAN: _PODMAN}[runtime]
