"""Renders a workload as systemd units, with a sysusers entry and a lease."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Final

from paddock.recipes.workload import Paths, Process, Workload
from paddock.runtimes import environment_of, script, statefiles
from paddock.runtimes.bundle import Bundle, BundleFile
from paddock.runtimes.envfile import quote
from paddock.spec.models import UserSpec

_HERE: Final = "paddock.runtimes.systemd"
_SHARED: Final = "paddock.runtimes"

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


class Systemd:
    """The runtime ``systemd``."""

    foreground = False
    init = "systemd"

    def paths(self, agent: str) -> Paths:
        state = f"/var/lib/paddock/{agent}"
        return Paths(
            code="/opt/paddock/code",
            etc=f"/etc/paddock/{agent}/current",
            state=state,
            home=f"{state}/home",
        )

    def bundle(self, agent: str, user: UserSpec, workload: Workload, *, mounted: bool) -> Bundle:
        paths = self.paths(agent)
        lease = _unit_name(agent, "lease")
        units = [_unit_name(agent, process.name) for process in workload.processes]
        texts = {
            "environment": environment_of(workload),
            "bundle.env": _environment(agent, paths, user, workload, lease, units, mounted=mounted),
            "sysusers.conf": f'u {user.name} {user.uid} "Paddock agent {agent}" {paths.home} /bin/bash\n',
            f"units/{lease}": _lease_unit(agent, paths, units, mounted=mounted),
            **{
                f"units/{name}": _process_unit(agent, paths, user, process, lease)
                for name, process in zip(units, workload.processes, strict=True)
            },
            **statefiles.rendered(workload),
            **{file.path: file.content for file in workload.files},
        }
        files = {path: BundleFile(text) for path, text in texts.items()}
        holder = (resources.files(_HERE) / "lease.sh").read_text(encoding="utf-8")
        return Bundle({**files, "lease": BundleFile(holder, executable=True)})

    def observe(self, agent: str, packages: Sequence[str]) -> Sequence[str]:
        paths = self.paths(agent)
        arguments = [_root(paths), paths.code, paths.state, agent, *packages]
        return script((_SHARED, "observe.sh"), (_HERE, "observe.sh"), arguments=arguments)

    def apply(self, agent: str, generation: str) -> Sequence[str]:
        arguments = [_root(self.paths(agent)), generation]
        return script((_SHARED, "receive.sh"), (_SHARED, "state.sh"), (_HERE, "apply.sh"), arguments=arguments)

    def remove(self, agent: str) -> Sequence[str]:
        paths = self.paths(agent)
        return script((_HERE, "remove.sh"), arguments=[_root(paths), paths.code, agent])

    def witness(self, agent: str, generation: str) -> Sequence[str]:
        return ["sh", "-c", 'echo "$1" >"$2"', "paddock", generation, f"{_root(self.paths(agent))}/answered"]

    def enter(self, agent: str, user: UserSpec, argv: Sequence[str]) -> Sequence[str]:
        paths = self.paths(agent)
        inner = ["setpriv", "--reuid", user.name, "--regid", user.name, "--init-groups", "--no-new-privs", *argv]
        return script((_SHARED, "enter.sh"), arguments=[_root(paths), paths.home, *inner])

    def logs(self, agent: str, lines: int, *, follow: bool) -> Sequence[str]:
        follows = ["--follow"] if follow else []
        return ["journalctl", "--no-pager", "--unit", f"paddock-{agent}-*", "--lines", str(lines), *follows]


def _root(paths: Paths) -> str:
    """The folder of all generations and of the secrets beside them."""
    return paths.etc.removesuffix("/current")


def _unit_name(agent: str, part: str) -> str:
    return f"paddock-{agent}-{part}.service"


def _environment(
    agent: str, paths: Paths, user: UserSpec, workload: Workload, lease: str, units: Sequence[str], *, mounted: bool
) -> str:
    values = {
        "AGENT": agent,
        "STATE": paths.state,
        "HOME_DIR": paths.home,
        "OWNER": f"{user.name}:{user.name}",
        "MOUNTED": "yes" if mounted else "",
        "LEASE": lease,
        "UNITS": " ".join(units),
        "GENERATED": " ".join(workload.generated),
    }
    return "".join(f"{name}={quote(value)}\n" for name, value in values.items())


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
ReadWritePaths={paths.state}/.paddock
{_CONFINED}
[Install]
WantedBy=multi-user.target
"""


def _process_unit(agent: str, paths: Paths, user: UserSpec, process: Process, lease: str) -> str:
    root = _root(paths)
    environment = "".join(
        f"Environment={_word(f'{name}={value}')}\n" for name, value in sorted(process.environment.items())
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
Group={user.name}
WorkingDirectory={process.directory}
{environment}EnvironmentFile={root}/secrets.env
EnvironmentFile={root}/generated.env
ExecStart={command}
Restart={process.restart}
RestartSec={process.restart_seconds:g}
SuccessExitStatus={" ".join(map(str, process.clean_exits))}
RestartPreventExitStatus={" ".join(map(str, process.fatal_exits))}
KillMode=mixed
TimeoutStopSec={process.stop_seconds}
ReadWritePaths={paths.home}
{_CONFINED}"""


def _word(text: str) -> str:
    """One word of a unit file, with what systemd would expand or end it at made literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'
