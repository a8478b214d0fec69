"""Commands for a machine that no runtime decides on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.channels.sent import script


def install_packages(packages: Sequence[str]) -> Sequence[str]:
    """Return the argv that installs packages of the distribution. Python may be one of them, so this is shell."""
    return script("packages.sh", ["install", *packages])


def start_service(unit: str) -> Sequence[str]:
    """Return the argv that starts a unit of the machine, now and at every boot."""
    return ["systemctl", "enable", "--now", unit]


def service_log(unit: str) -> Sequence[str]:
    """Return the argv that prints the last lines of a unit's own output, without messages of systemd."""
    return ["journalctl", "--quiet", "--output", "cat", "--lines", "3", f"_SYSTEMD_UNIT={unit}"]
