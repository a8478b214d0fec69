"""Try whether real containers can run on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pvebox.api.errors import SandboxError
from pvebox.server.process import ProcessResult, attempt

# The programs that the lxc runtime needs, each with its Debian package.
_PROGRAMS: Final = {
    "lxc-start": "lxc",
    "lxc-stop": "lxc",
    "lxc-info": "lxc",
    "lxc-freeze": "lxc",
    "mmdebstrap": "mmdebstrap",
    "dnsmasq": "dnsmasq-base",
    "iptables": "iptables",
    "ip": "iproute2",
    "mkfs.ext4": "e2fsprogs",
    "losetup": "mount",
    "mount": "mount",
    "nsenter": "util-linux",
    "fsfreeze": "util-linux",
    "setpriv": "util-linux",
    "ssh-keygen": "openssh-client",
    "openssl": "openssl",
    "tar": "tar",
    "zstd": "zstd",
}


def unable_to_run() -> str | None:
    """Return None if the lxc runtime works on this machine, else a message with the reason."""
    if sys.platform != "linux":
        return "Real containers need Linux."
    if os.geteuid() != 0:
        return "Real containers need root."
    missing = sorted({package for program, package in _PROGRAMS.items() if shutil.which(program) is None})
    if missing:
        # With lxc, apt would recommend lxcfs, whose hook keeps containers from starting where lxcfs does not run.
        install = "apt-get install --no-install-recommends"
        return f"Real containers need programs that are not installed: {install} {' '.join(missing)}"
    trials: tuple[Callable[[Path], str | None], ...] = (
        _mount_image,
        _make_bridge,
        _translate_addresses,
        _run_container,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="pvebox-probe-") as directory:
            for trial in trials:
                reason = trial(Path(directory))
                if reason is not None:
                    return reason
    except (SandboxError, OSError) as error:
        return f"Real containers cannot run on this machine: {error}"
    return None


def _said(ended: ProcessResult) -> str:
    said = (ended.err or ended.out).strip().split("\n")[0]
    return said.strip().rstrip(".") if said else f"exit code {ended.code}"


def _mount_image(directory: Path) -> str | None:
    image, point = directory / "image", directory / "mounted"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(4 << 20)
    made = attempt("mkfs.ext4", "-q", "-F", str(image))
    if not made.ok:
        return f"Real containers need ext4 images, which this machine cannot create: {_said(made)}."
    mounted = attempt("mount", "-o", "loop", str(image), str(point))
    if not mounted.ok:
        return (
            f"Real containers need loop mounts, which this machine does not allow: {_said(mounted)}. "
            "If this machine is a container, it must be privileged and have loop devices."
        )
    unmounted = attempt("umount", str(point))
    return None if unmounted.ok else f"A loop mount could not be undone: {_said(unmounted)}."


def _make_bridge(directory: Path) -> str | None:
    name = f"pvbp{os.getpid() % 10**7}"
    made = attempt("ip", "link", "add", name, "type", "bridge")
    if not made.ok:
        return f"Real containers need a network bridge, which this machine cannot create: {_said(made)}."
    attempt("ip", "link", "delete", name)
    return None


def _translate_addresses(directory: Path) -> str | None:
    listed = attempt("iptables", "-w", "-t", "nat", "-S")
    if not listed.ok:
        return f"Real containers need NAT, which iptables cannot set up on this machine: {_said(listed)}."
    if not os.access("/proc/sys/net/ipv4/ip_forward", os.W_OK):
        return "Real containers need IP forwarding, which cannot be enabled on this machine."
    return None


def _run_container(directory: Path) -> str | None:
    """Run a program of the host in an unprivileged container that has almost no files of its own."""
    name = f"pvbprobe{os.getpid()}"
    root = directory / "root"
    root.mkdir()
    lines = [
        "lxc.include = /usr/share/lxc/config/common.conf",
        "lxc.include = /usr/share/lxc/config/userns.conf",
        "lxc.idmap = u 0 100000 65536",
        "lxc.idmap = g 0 100000 65536",
        "lxc.apparmor.profile = unconfined",
        f"lxc.rootfs.path = dir:{root}",
        "lxc.net.0.type = empty",
        "lxc.init.cmd = /usr/bin/true",
    ]
    for part in ("dev", "proc", "sys", "run", "tmp", "etc"):
        (root / part).mkdir()
    for part in ("usr", "bin", "sbin", "lib", "lib64"):
        source = Path("/") / part
        if source.is_symlink():
            (root / part).symlink_to(source.readlink())
        elif source.is_dir():
            (root / part).mkdir()
            lines.append(f"lxc.mount.entry = {source} {part} none bind,ro 0 0")
    home = directory / "lxc" / name
    home.mkdir(parents=True)
    (home / "config").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # The container's root is an unprivileged user of the host and must be able to enter this directory.
    directory.chmod(0o755)
    program = shutil.which("lxc-start") or "lxc-start"
    log = directory / "log"
    ended = attempt(
        *(program, "-P", str(home.parent), "-n", name, "-F", "-o", str(log), "-l", "ERROR"),
        environment={"PATH": "/nonexistent"},
        timeout=10,
    )
    with contextlib.suppress(OSError):
        (directory / "lxc" / name / "config").unlink()
    if ended.ok:
        return None
    said = log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
    why = said.split("\n")[0].rpartition(" - ")[2] if said else _said(ended)
    return f"An unprivileged LXC container does not start on this machine: {why}."
