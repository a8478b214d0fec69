"""The base template: a Debian archive like the one Proxmox offers, built once per machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from pathlib import Path
from typing import Final

from .errors import SandboxError
from .process import attempt

_SUITE: Final = "bookworm"
_PACKAGES: Final = (
    *("systemd", "systemd-sysv", "dbus", "openssh-server", "iproute2", "ifupdown", "isc-dhcp-client"),
    *("ca-certificates", "python3", "util-linux", "iputils-ping", "procps", "netbase", "less"),
)
# A template has no identity: keys and machine id are made when a container is.
_HOOKS: Final = (
    'rm -f "$1"/etc/ssh/ssh_host_*',
    ': > "$1"/etc/machine-id',
    'rm -f "$1"/var/lib/dbus/machine-id "$1"/etc/resolv.conf "$1"/etc/hostname',
    # It cannot be mounted in an unprivileged container, and would leave every system degraded.
    'ln -sf /dev/null "$1"/etc/systemd/system/sys-kernel-debug.mount',
    'ln -sf /dev/null "$1"/etc/systemd/system/sys-kernel-tracing.mount',
    # Name lookups of clients would delay logins where there is no reverse zone.
    'printf "UseDNS no\\n" > "$1"/etc/ssh/sshd_config.d/paddock.conf',
    'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin',
)


def cache_directory() -> Path:
    """Where archives are kept between sandboxes."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paddock"


def ensure_base(name: str) -> Path:
    """The base template's archive, built if this machine does not have it yet."""
    if not name.startswith("debian-12-"):
        raise SandboxError(
            f"The sandbox cannot make a template {name}.", hint="It makes Debian 12 ones: debian-12-….tar.zst."
        )
    # Another recipe makes another archive, under the same name.
    recipe = hashlib.sha256(repr((_SUITE, _PACKAGES, _HOOKS)).encode()).hexdigest()[:10]
    directory = cache_directory() / f"base-{recipe}"
    directory.mkdir(parents=True, exist_ok=True)
    archive = directory / name
    if archive.exists():
        return archive
    with (directory / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _build(archive)
    return archive


def _build(archive: Path) -> None:
    sys.stderr.write(f"Building the base template {archive.name} with mmdebstrap; this happens once.\n")
    sys.stderr.flush()
    temporary = archive.with_name(f"building-{os.getpid()}-{archive.name}")
    try:
        ended = attempt(
            *("mmdebstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}"),
            *(f"--customize-hook={hook}" for hook in _HOOKS),
            *(_SUITE, str(temporary)),
            timeout=900,
        )
        if not ended.ok:
            last = next((line for line in reversed(ended.err.split("\n")) if line.startswith("E:")), "")
            raise SandboxError(
                f"The base template could not be built. {last}".strip(),
                hint="mmdebstrap needs a Debian mirror that this machine can reach.",
            )
        temporary.rename(archive)
    finally:
        temporary.unlink(missing_ok=True)
    sys.stderr.write(f"The base template is in {archive}.\n")
