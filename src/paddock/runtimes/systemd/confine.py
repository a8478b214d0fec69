"""What a unit may not do; and how each of it is switched off where a machine cannot give it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Directive:
    """A line of a unit, and the line that takes it back."""

    line: str
    off: str
    remounts: bool = False  # gives the unit a view of the files of its own; some systemd ignore it where they cannot


def _yes(name: str, *, remounts: bool = False) -> Directive:
    return Directive(f"{name}=yes", f"{name}=no", remounts)


# In the order in which they are tried where not all can be had; the first one makes others possible.
_OF_AN_ACCOUNT: Final = _yes("PrivateUsers")
_ALWAYS: Final = (
    Directive("CapabilityBoundingSet=", "CapabilityBoundingSet=~"),
    _yes("LockPersonality"),
    _yes("NoNewPrivileges"),
    _yes("PrivateDevices", remounts=True),
    _yes("PrivateTmp", remounts=True),
    _yes("ProtectClock"),
    _yes("ProtectControlGroups", remounts=True),
    _yes("ProtectHostname", remounts=True),
    _yes("ProtectKernelLogs", remounts=True),
    _yes("ProtectKernelModules", remounts=True),
    _yes("ProtectKernelTunables", remounts=True),
    Directive("ProtectSystem=strict", "ProtectSystem=no", remounts=True),
    _yes("RestrictRealtime"),
    _yes("RestrictSUIDSGID"),
    Directive("SystemCallArchitectures=native", "SystemCallArchitectures="),
)
_PROC: Final = Directive("ProtectProc=invisible", "ProtectProc=default", remounts=True)
_NAMESPACES: Final = Directive("RestrictNamespaces=yes", "RestrictNamespaces=no")
_CALLS: Final = Directive("SystemCallFilter=@system-service", "SystemCallFilter=")
# What a browser needs to put its own sandbox, which is a better one, around the pages it shows.
_NAMESPACES_OF_A_BROWSER: Final = Directive("RestrictNamespaces=user pid net", "RestrictNamespaces=no")
_CALLS_OF_A_BROWSER: Final = Directive("SystemCallFilter=@system-service chroot", "SystemCallFilter=")


@dataclass(frozen=True)
class Confinement:
    """All that one unit may not do, and the folders it sees nonetheless."""

    writes: Sequence[str]
    reads: Sequence[str]
    of_an_account: bool = False  # by the account's own systemd, which can do less
    browser: bool = False

    @property
    def directives(self) -> Sequence[Directive]:
        """The lines, in the order in which they are tried."""
        return (
            # An account's systemd ignores the second.
            _OF_AN_ACCOUNT if self.of_an_account else _PROC,
            *self._folders(),
            *_ALWAYS,
            _NAMESPACES_OF_A_BROWSER if self.browser else _NAMESPACES,
            _CALLS_OF_A_BROWSER if self.browser else _CALLS,
        )

    def _folders(self) -> Sequence[Directive]:
        writes = " ".join(map(word, self.writes))
        if not any(_in_a_home(path) for path in (*self.writes, *self.reads)):
            return (
                _yes("ProtectHome", remounts=True),
                Directive(f"ReadWritePaths={writes}", "ReadWritePaths=", remounts=True),
            )
        # Of homes it sees nothing but what is its own. An account's systemd listens in its runtime directory, which
        # counts as a home too.
        # An agent without code has no store. One empty BindReadOnlyPaths= would take back the other line too.
        optional = [word(f"-{path}") for path in self.reads]
        reads = " ".join([*optional, *(("%t/systemd/notify",) if self.of_an_account else ())])
        return (
            Directive("ProtectHome=tmpfs", "ProtectHome=no", remounts=True),
            Directive(f"BindPaths={writes}", "BindPaths=", remounts=True),
            Directive(f"BindReadOnlyPaths={reads}", "BindReadOnlyPaths=", remounts=True),
        )

    def lines(self) -> str:
        """As a unit has them."""
        fixed = "SystemCallErrorNumber=EPERM\nUMask=0077\n"
        return "".join(f"{directive.line}\n" for directive in self.directives) + fixed

    def trials(self) -> str:
        """As relax.sh reads them: each line, the one that takes it back, and whether it remounts."""
        return "".join(f"{each.line}\t{each.off}\t{'remounts' if each.remounts else '-'}\n" for each in self.directives)


def _in_a_home(path: str) -> bool:
    return path.startswith(("/home/", "/root/", "/run/user/"))


def word(text: str) -> str:
    """One word of a unit file, with what systemd would expand or end it at made literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped}"'
