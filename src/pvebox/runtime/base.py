"""Build the base template, a Debian archive like Proxmox's own, once per machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from pathlib import Path
from typing import Final

from pvebox.api.errors import SandboxError
from pvebox.server import statedir
from pvebox.server.process import attempt

_SUITE: Final = "bookworm"
_PACKAGES: Final = (
    *("systemd", "systemd-sysv", "dbus", "openssh-server", "iproute2", "ifupdown", "isc-dhcp-client"),
    *("ca-certificates", "python3", "util-linux", "iputils-ping", "procps", "netbase", "less"),
)
# A template has no ssh host keys and no machine id: each container gets its own when it is created.
_HOOKS: Final = (
    'rm -f "$1"/etc/ssh/ssh_host_*',
    ': > "$1"/etc/machine-id',
    'rm -f "$1"/var/lib/dbus/machine-id "$1"/etc/resolv.conf "$1"/etc/hostname',
    # These file systems cannot be mounted in an unprivileged container; the failed units would degrade systemd.
    'ln -sf /dev/null "$1"/etc/systemd/system/sys-kernel-debug.mount',
    'ln -sf /dev/null "$1"/etc/systemd/system/sys-kernel-tracing.mount',
    # Without a reverse DNS zone, looking up the client's name would delay each login.
    'printf "UseDNS no\\n" > "$1"/etc/ssh/sshd_config.d/pvebox.conf',
    'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin',
)


def cache_directory() -> Path:
    """Return the directory of archives that all sandboxes of this account share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pvebox"


def ensure_base(name: str) -> Path:
    """Return the path of the base template's archive; build the archive if it does not exist."""
    if not name.startswith("debian-12-"):
        raise SandboxError(
            f"The sandbox cannot build the template {name}.", hint="It builds Debian 12 only: debian-12-….tar.zst."
        )
    # The archive's name does not tell how it was built, so the directory is named by a hash of the inputs.
    recipe = hashlib.sha256(repr((_SUITE, _PACKAGES, _HOOKS)).encode()).hexdigest()[:10]
    directory = cache_directory() / f"base-{recipe}"
    statedir.make_private(directory, hint="Set XDG_CACHE_HOME to a directory of this account.")
    archive = directory / name
    if archive.exists():
        return archive
    with (directory / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _build(archive)
    return archive


def _build(archive: Path) -> None:
    sys.stderr.write(f"Building the base template {archive.name} with mmdebstrap. This is done once per machine.\n")
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
    sys.stderr.write(f"The base template is ready: {archive}\n")
