"""Renders a workload as systemd units, with a sysusers entry and a lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Final

from paddock.recipes.workload import Paths, Process, Workload
from paddock.runtimes import configuration, environment_of, script, statefiles, variables
from paddock.runtimes.bundle import Bundle, BundleFile
from paddock.runtimes.envfile import quote
from paddock.runtimes.isolation import Isolation
from paddock.runtimes.systemd import account
from paddock.spec.models import AgentSpec, UserSpec

_HERE: Final = "paddock.runtimes.systemd"
_SHARED: Final = "paddock.runtimes"

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Received, and its account and state in place.
BEFORE_APPLY: Final = (
    *((_SHARED, name) for name in ("receive.sh", "ownership.sh", "state.sh")),
    *((_HERE, name) for name in ("account.sh", "prepare.sh")),
)

_CONFINED: Final = """\
CapabilityBoundingSet=
LockPersonality=yes
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
"""


@dataclass(frozen=True)
class Systemd:
    """The runtime ``systemd``."""

    agent: str
    spec: AgentSpec
    foreground = False
    init = "systemd"
    confines = frozenset(Isolation)
    container = None

    @property
    def paths(self) -> Paths:
        trail = f"/var/lib/paddock/{self.agent}"
        state = self.spec.state.path or trail
        return Paths(
            code="/opt/paddock/.store",
            etc=f"/etc/paddock/{self.agent}/current",
            state=state,
            home=f"{state}/home",
            trail=trail,
        )

    @property
    def inside(self) -> Paths:
        return self.paths

    @property
    def _root(self) -> str:
        """The folder of all generations and of the secrets beside them."""
        return self.paths.etc.removesuffix("/current")

    def bundle(self, workload: Workload, tree: str | None, *, mounted: bool) -> Bundle:
        lease = self.unit("lease")
        units = {
            self.unit(process.name): _process_unit(self.agent, self.paths, self.spec.user, process, lease)
            for process in workload.processes
        }
        return self.bundle_of(units, workload, tree, mounted=mounted)

    def unit(self, part: str) -> str:
        """The name of one of the agent's units."""
        return f"paddock-{self.agent}-{part}.service"

    def bundle_of(
        self,
        units: Mapping[str, str],
        workload: Workload,
        tree: str | None,
        *,
        mounted: bool,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Bundle:
        """These units, and what goes with any: account, directories, lease; ``more`` is known to the scripts too."""
        agent, paths, user = self.agent, self.paths, self.spec.user
        environment = {
            "AGENT": agent,
            "STORE": paths.code,
            "TREE": tree or "",
            "STATE": paths.state,
            "HOME_DIR": paths.home,
            **account.variables(user),
            "TRAIL": paths.trail,
            "MOUNTED": "yes" if mounted else "",
            "LEASE": self.unit("lease"),
            "UNITS": " ".join(units),
            "GENERATED": " ".join(workload.generated),
            **more,
        }
        texts = {
            "environment": environment_of(workload),
            "bundle.env": "".join(f"{name}={quote(value)}\n" for name, value in environment.items()),
            "sysusers.conf": account.sysusers(agent, user, paths.home),
            f"units/{self.unit('lease')}": _lease_unit(agent, paths, list(units), mounted=mounted),
            **{f"units/{name}": text for name, text in units.items()},
            **statefiles.rendered(workload),
        }
        files = {path: BundleFile(text) for path, text in texts.items()}
        holder = (resources.files(_HERE) / "lease.sh").read_text(encoding="utf-8")
        return Bundle({**files, **configuration(workload), "lease": BundleFile(holder, executable=True)})

    def observe(self, packages: Sequence[str]) -> Sequence[str]:
        arguments = [self._root, self.paths.code, self.paths.trail, self.agent, *packages]
        return script((_SHARED, "observe.sh"), (_HERE, "observe.sh"), arguments=arguments)

    def apply(self, generation: str) -> Sequence[str]:
        parts = (*BEFORE_APPLY, (_SHARED, "versions.sh"), (_HERE, "apply.sh"))
        return script(*parts, arguments=[self._root, generation])

    def remove(self) -> Sequence[str]:
        arguments = [self._root, self.paths.code, self.agent]
        return script((_SHARED, "versions.sh"), (_HERE, "remove.sh"), arguments=arguments)

    def supervised(self, workload: Workload) -> Sequence[str]:
        return [process.name for process in workload.processes]

    def inspect(self) -> Sequence[str]:
        return script((_HERE, "inspect.sh"), arguments=[self.agent])

    def witness(self, generation: str) -> Sequence[str]:
        return ["sh", "-c", 'echo "$1" >"$2"', "paddock", generation, f"{self._root}/answered"]

    def enter(self, argv: Sequence[str]) -> Sequence[str]:
        user = self.spec.user
        inner = ["setpriv", "--reuid", user.name, "--regid", user.group_name, "--init-groups", "--no-new-privs", *argv]
        return script((_SHARED, "enter.sh"), arguments=[self._root, self.paths.home, *inner])

    def logs(self, lines: int, *, follow: bool) -> Sequence[str]:
        follows = ["--follow"] if follow else []
        return ["journalctl", "--no-pager", "--unit", f"paddock-{self.agent}-*", "--lines", str(lines), *follows]


def _lease_unit(agent: str, paths: Paths, units: Sequence[str], *, mounted: bool) -> str:
    return f"""\
[Unit]
Description=Lease on the state of {agent}
Wants={" ".join(units)}
RequiresMountsFor={paths.state}
{f"AssertPathIsMountPoint={paths.state}" if mounted else f"AssertPathIsDirectory={paths.state}"}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=all
ExecStart={paths.etc}/lease {paths.state} {agent}
Restart=on-failure
RestartSec=5
{_confined(f"{paths.state}/.paddock")}
[Install]
WantedBy=multi-user.target
"""


def _process_unit(agent: str, paths: Paths, user: UserSpec, process: Process, lease: str) -> str:
    root = paths.etc.removesuffix("/current")
    environment = "".join(
        f"Environment={_word(f'{name}={value}')}\n" for name, value in sorted(variables(process, _PATH).items())
    )
    # Only a command line expands variables.
    command = " ".join(_word(word).replace("$", "$$") for word in process.argv)
    return f"""\
[Unit]
Description={process.name} of {agent}
BindsTo={lease}
After={lease} network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
User={user.name}
Group={user.group_name}
WorkingDirectory={process.directory}
{environment}EnvironmentFile={root}/secrets.env
EnvironmentFile={root}/generated.env
ExecStart={command}
Restart={process.restart}
RestartSec={process.restart_seconds:g}
SuccessExitStatus={" ".join(map(str, process.clean_exits))}
RestartPreventExitStatus={" ".join(map(str, process.fatal_exits))}
RestartForceExitStatus={" ".join(map(str, process.restart_exits))}
KillMode=mixed
TimeoutStopSec={process.stop_seconds}
{_confined(paths.home, *process.writable)}"""


def _confined(writes: str, *more: str) -> str:
    """Little but the folders it may write to; people's homes are hidden, except where that folder is in one."""
    confined = f"ReadWritePaths={' '.join(_word(path) for path in (writes, *more))}\n{_CONFINED}"
    if writes.startswith(("/home/", "/root/", "/run/user/")):
        return confined.replace("ProtectHome=yes", f"ProtectHome=tmpfs\nBindPaths={writes}")
    return confined


def _word(text: str) -> str:
    """One word of a unit file, with what systemd would expand or end it at made literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'
