"""The surroundings of a unit: its account, its mounts, and the directives that confine it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from paddock.base.frozen import frozen
from paddock.file.models.machine import MachineSpec, MountSpec
from paddock.file.models.whole import UserSpec


@frozen
class Directive:
    """A line of a unit, and the line that switches it off."""

    line: str
    off: str
    remounts: bool = False  # needs a mount namespace; some versions of systemd ignore it without one


def _yes(name: str, *, remounts: bool = False) -> Directive:
    return Directive(f"{name}=yes", f"{name}=no", remounts)


# In the order of relax.sh's trials. The first one makes others possible.
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
# The families that the filter of an agent's connections sees, and those that leave no machine.
_FAMILIES: Final = Directive("RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK", "RestrictAddressFamilies=")
_PROC: Final = Directive("ProtectProc=invisible", "ProtectProc=default", remounts=True)
_NAMESPACES: Final = Directive("RestrictNamespaces=yes", "RestrictNamespaces=no")
# A ring opens sockets that no filter of system calls sees. Programs that use rings go on without them.
_NO_RINGS: Final = "SystemCallFilter=~io_uring_setup io_uring_enter io_uring_register\n"
_CALLS: Final = Directive("SystemCallFilter=@system-service", "SystemCallFilter=")
# A browser needs these to confine its pages in its own sandbox, which is stricter.
_NAMESPACES_OF_A_BROWSER: Final = Directive("RestrictNamespaces=user pid net", "RestrictNamespaces=no")
_CALLS_OF_A_BROWSER: Final = Directive("SystemCallFilter=@system-service chroot", "SystemCallFilter=")


@frozen
class Confinement:
    """The confinement of one unit, and the folders that it may write to and read."""

    writes: Sequence[str]
    reads: Sequence[str]
    of_an_account: bool = False  # run by the account's own systemd, which supports less
    browser: bool = False
    internet: bool = False  # only connections of the internet's protocols, which can be filtered

    @property
    def directives(self) -> Sequence[Directive]:
        """The directives, in the order of the trials."""
        return (
            # An account's systemd ignores ProtectProc.
            _OF_AN_ACCOUNT if self.of_an_account else _PROC,
            *self._folders(),
            *_ALWAYS,
            *((_FAMILIES,) if self.internet else ()),
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
        # The unit sees only its own folders in homes. The runtime directory of an account, where its systemd listens,
        # counts as a home too.
        # Paths are optional (-), because an agent without code has no store. An empty BindReadOnlyPaths= would also
        # reset BindPaths=.
        optional = [word(f"-{path}") for path in self.reads]
        reads = " ".join([*optional, *(("%t/systemd/notify",) if self.of_an_account else ())])
        return (
            Directive("ProtectHome=tmpfs", "ProtectHome=no", remounts=True),
            Directive(f"BindPaths={writes}", "BindPaths=", remounts=True),
            Directive(f"BindReadOnlyPaths={reads}", "BindReadOnlyPaths=", remounts=True),
        )

    def lines(self) -> str:
        """Return the directives as lines of a unit."""
        fixed = "SystemCallErrorNumber=EPERM\nUMask=0077\n"
        return "".join(f"{directive.line}\n" for directive in self.directives) + (
            _NO_RINGS + fixed if self.internet else fixed
        )

    def trials(self) -> str:
        """Return the directives for relax.sh: each line, the line that switches it off, and whether it remounts."""
        return "".join(f"{each.line}\t{each.off}\t{'remounts' if each.remounts else '-'}\n" for each in self.directives)


def _in_a_home(path: str) -> bool:
    return path.startswith(("/home/", "/root/", "/run/user/"))


def word(text: str) -> str:
    """Return the text as one quoted word of a unit file, with systemd's special characters escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped}"'


def sysusers(agent: str, user: UserSpec, home: str) -> str:
    """Return the entries that create the account; none if the file names an existing one."""
    if not user.create:
        return ""
    group = user.group_name
    gid = user.uid if user.gid is None else user.gid
    return f'g {group} {gid}\nu {user.name} {user.uid}:{group} "Paddock agent {agent}" {home} /bin/bash\n'


def variables(user: UserSpec) -> dict[str, str]:
    """Return the variables of account.sh: the owner of the state, and the ids that the file requires."""
    required = {*user.model_fields_set, *(("uid",) if user.create else ())}
    return {
        "OWNER": f"{user.name}:{user.group_name}",
        "USER_UID": str(user.uid) if "uid" in required else "",
        "GROUP_GID": str(user.gid) if user.gid is not None else "",
    }


@frozen
class Mounts:
    """The mounts of an agent. ``mounted`` says that the machine was made for the agent and has them mounted."""

    mounts: Sequence[MountSpec]
    mounted: bool

    @property
    def conditions(self) -> str:
        """Return lines that require each mount: files written to an unmounted path are lost with the machine."""
        return "".join(f"AssertPathIsMountPoint={mount.path}\n" for mount in self.mounts if self.mounted)

    @property
    def service(self) -> str:
        """Return lines that show the directories to the agent."""
        return "".join(map(_line, self.mounts))


def _line(mount: MountSpec) -> str:
    if mount.host == mount.path:
        return f"Read{'Only' if mount.read_only else 'Write'}Paths={mount.path}\n"
    return f"Bind{'ReadOnly' if mount.read_only else ''}Paths={mount.host}:{mount.path}\n"


def lines(machine: MachineSpec) -> str:
    """Return the lines of a unit for the limits in the file; empty without limits."""
    return "".join(f"{line}\n" for line in _lines(machine))


def _lines(machine: MachineSpec) -> Iterator[str]:
    if "memory" in machine.model_fields_set:
        yield f"MemoryMax={int(machine.memory)}"
    if "cores" in machine.model_fields_set:
        yield f"CPUQuota={machine.cores * 100}%"


def in_words(machine: MachineSpec) -> str:
    """Return what limits each unit, for a plan."""
    memory = str(machine.memory) if "memory" in machine.model_fields_set else "80% of the host's memory"
    cores = f" and {machine.cores} cores" if "cores" in machine.model_fields_set else ""
    return f"at most {memory}{cores}"


def effective(found: Sequence[str]) -> list[str]:
    """Return the effective lines of a unit: for each name the last line."""
    return list({line.partition("=")[0]: line for line in found}.values())
