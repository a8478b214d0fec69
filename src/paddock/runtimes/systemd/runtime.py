"""Render a workload as systemd units, with a sysusers entry and a lease."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from paddock.base.frozen import frozen
from paddock.channels.sent import program, source
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import AgentSpec
from paddock.kinds.workload import Health, Paths, Process, Program, Workload
from paddock.runtimes import bundle, egress
from paddock.runtimes.bundle import Bundle, BundleFile, quote
from paddock.runtimes.contract import Isolation, Runtime, common_variables, configuration, variables
from paddock.runtimes.systemd import confine
from paddock.runtimes.systemd.confine import Confinement, Mounts, word

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where NixOS has its programs; those with privileges come first, such as newuidmap. Only root writes below /run.
_NIXOS_PATH: Final = "/run/wrappers/bin:/run/current-system/sw/bin"
_ENTER: Final = "paddock.onboard.enter"


@frozen
class Systemd(Runtime):
    """The runtime ``systemd``: the machine's systemd, or with ``home`` the systemd of an account without root."""

    agent: AgentId
    spec: AgentSpec
    home: str | None = None
    formers: Sequence[AgentId] = ()  # ids under which the agent may be deployed so far

    @property
    def confines(self) -> frozenset[Isolation]:
        return frozenset(Isolation) - ({Isolation.ACCOUNT, Isolation.PROC} if self.home else set())

    @property
    def init(self) -> str:
        return "systemd --user" if self.home else "systemd"

    @property
    def paths(self) -> Paths:
        if self.home:
            data = f"{self.home}/.local/share/paddock"
            return Paths.of(
                code=f"{data}/.code/.store",
                etc=f"{self.home}/.config/paddock/{self.agent}/current",
                state_link=f"{data}/.agents/{self.agent}",
                state=self.spec.state.path or f"{data}/{self.agent.name}/state",
            )
        return Paths.of(
            code="/opt/paddock/.store",
            etc=f"/etc/paddock/{self.agent}/current",
            state_link=f"/var/lib/paddock/.agents/{self.agent}",
            state=self.spec.state.path or f"/var/lib/paddock/{self.agent.name}",
        )

    @property
    def owners(self) -> Sequence[str]:
        return [] if self.home else [self.spec.user.name]

    @property
    def path(self) -> str:
        """The directories of the machine's programs. An account's systemd may be from NixOS."""
        return f"{_PATH}:{_NIXOS_PATH}" if self.home else _PATH

    @property
    def search(self) -> str:
        """The line of a unit with the directories of programs; empty where systemd knows them.

        The systemd of NixOS looks for programs only among its own.
        """
        return f"ExecSearchPath={self.path}\n" if self.home else ""

    def bundle(
        self,
        workload: Workload,
        tree: str | None,
        *,
        mounted: bool,
        health: Health = None,
        neighbours: Sequence[str] = (),
    ) -> Bundle:
        seen = Mounts(self.spec.mounts, mounted)
        units = {self.unit(process.name): self._process_unit(process, seen) for process in workload.processes}
        filters = self.filters(workload, self.spec.user.name, neighbours)
        found = self.bundle_of(units, workload, tree, mounted=mounted, filters=filters, more={"ENTER": self._enter})
        entered = {f"units/{self._enter}": self._enter_unit(workload, seen), "enter.py": program(_ENTER)}
        found = Bundle({**found.files, **{path: BundleFile(text) for path, text in entered.items()}})
        return found if mounted else found.with_limits(confine.lines(self.spec.machine))

    def filters(self, workload: Workload, user: str | int, neighbours: Sequence[str]) -> Mapping[str, str]:
        """Return the files that limit the connections of an account; none if the file does not limit them."""
        if not self.spec.network.closed:
            return {}
        return egress.files(f"paddock-{self.agent}", self.spec, user, workload, neighbours)

    @property
    def required(self) -> Sequence[str]:
        """The units that have to run while the agent runs."""
        return [self.unit("lease"), *([self.unit("egress")] if self.spec.network.closed else [])]

    @property
    def _ends_account(self) -> bool:
        """Whether all processes of the account end with the agent: Paddock made the account for it alone."""
        return self.home is None and self.spec.user.create

    @property
    def _enter(self) -> str:
        """The template of the units in which programs run beside the agent."""
        return self.unit("enter@")

    def unit(self, part: str) -> str:
        """Return the name of one of the agent's units."""
        # No id contains a dot, so `home_bee.*` does not match the units of `home_bee-two`.
        return f"paddock-{self.agent}.{part}.service"

    def bundle_of(
        self,
        units: Mapping[str, str],
        workload: Workload,
        tree: str | None,
        *,
        mounted: bool,
        filters: Mapping[str, str],
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Bundle:
        """Return a bundle of these units, with account, directories, lease and filters of connections.

        ``more`` has variables for scripts.
        """
        agent, paths, user = self.agent, self.paths, self.spec.user
        environment = {
            "AGENT": str(agent),
            "STORE": paths.code,
            "TREE": tree or "",
            "STATE": paths.state,
            "HOME_DIR": paths.home,
            **({"OWNER": ""} if self.home else confine.variables(user)),
            "STATE_LINK": paths.state_link,
            "MOUNTED": "yes" if mounted else "",
            "LEASE": self.unit("lease"),
            **({"EGRESS": self.unit("egress")} if filters else {}),
            "UNITS": " ".join(units),
            "GENERATED": " ".join(workload.generated),
            "PROGRAMS": " ".join(program.name for program in workload.programs),
            **more,
        }
        texts = {
            "bundle.env": "".join(f"{name}={quote(value)}\n" for name, value in environment.items()),
            **({} if self.home else {"sysusers.conf": confine.sysusers(agent.name, user, paths.home)}),
            "confinement": self._confined(paths.state).trials(),
            "lease.py": source("paddock.onboard.lease"),
            **({"remains.py": source("paddock.onboard.remains")} if self._ends_account else {}),
            f"units/{self.unit('lease')}": self._lease_unit(list(units), mounted=mounted),
            **({f"units/{self.unit('egress')}": self._egress_unit(list(units))} if filters else {}),
            **filters,
            **{f"units/{name}": content for name, content in units.items()},
            **bundle.rendered(workload),
        }
        files = {path: BundleFile(content) for path, content in texts.items()}
        files |= {
            f"programs/{program.name}": BundleFile(self._program(program), executable=True)
            for program in workload.programs
        }
        return Bundle({**files, **configuration(workload)})

    @property
    def manager(self) -> str:
        return "user" if self.home else "system"

    def enter(self, argv: Sequence[str]) -> Sequence[str]:
        return ["python3", "-I", "-S", f"{self.paths.etc}/enter.py", self.manager, self._enter, *argv]

    def logs(self, lines: int, *, follow: bool) -> Sequence[str]:
        follows = ["--follow"] if follow else []
        unit = ["--user-unit" if self.home else "--unit", self.unit("*")]
        return ["journalctl", "--quiet", "--no-pager", *unit, "--lines", str(lines), *follows]

    def _program(self, program: Program) -> str:
        """Return the script of a command: root runs the agent's own program, as the agent."""
        others, user, name = quote(program.others), self.spec.user, program.name
        refusal = f"{name} of {self.agent.name} needs its secrets, which only root can read: sudo {name}"
        if self.home:
            return f'#!/bin/sh\nexec {shlex.join(self.enter([program.own]))} "$@"\n'
        return f"""\
#!/bin/sh
# {name}: for root the program of {self.agent.name}, as `paddock exec` runs it. Others run the same code with their own
# home, and see nothing of the agent.
case "$(id -un)" in
    root) exec {shlex.join(self.enter([program.own]))} "$@" ;;
    {user.name}) echo {quote(refusal)} >&2 && exit 1 ;;
    *) exec {others} "$@" ;;
esac
"""

    def _confined(self, *writes: str, browser: bool = False) -> Confinement:
        reads = (self.paths.root, self.paths.code)
        return Confinement(
            writes, reads, of_an_account=self.home is not None, browser=browser, internet=self.spec.network.closed
        )

    def _lease_unit(self, units: Sequence[str], *, mounted: bool) -> str:
        agent, paths = self.agent, self.paths
        ends = f"ExecStopPost=+python3 -I -S {paths.etc}/remains.py {self.spec.user.name}\n"
        ending = ends if self._ends_account else ""
        return f"""\
[Unit]
Description=Lease on the state of {agent.name}
Wants={" ".join(units)}
RequiresMountsFor={paths.state}
{f"AssertPathIsMountPoint={paths.state}" if mounted else f"AssertPathIsDirectory={paths.state}"}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=all
{self.search}ExecStart=python3 -I -S {paths.etc}/lease.py {paths.state} {agent}
{ending}# systemd keeps the lock after its holder died, until this unit has stopped.
FileDescriptorStoreMax=1
Restart=always
RestartSec=5
{self._confined(f"{paths.state}/.paddock").lines()}
[Install]
WantedBy={"default" if self.home else "multi-user"}.target
"""

    def _egress_unit(self, units: Sequence[str]) -> str:
        etc, confined = self.paths.etc, Confinement((self.paths.root,), (), internet=True)
        return f"""\
[Unit]
Description=Limits of the connections of {self.agent.name}
Wants={" ".join(units)} network-online.target
After=network-online.target nftables.service
# Loading the machine's own rules removes all tables.
ReloadPropagatedFrom=nftables.service
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart=python3 -I -S {etc}/egress.py {etc}
ExecReload=kill -HUP $MAINPID
Restart=always
RestartSec=5
{confined.lines()}CapabilityBoundingSet=CAP_NET_ADMIN
# It reads what is mounted, also below homes: storage on the network.
ProtectHome=read-only
"""

    def _service(self, directory: str, variables: Mapping[str, str], command: str) -> str:
        """Return the lines of a service that runs a program of the agent, as its account and with its environment."""
        user, root = self.spec.user, self.paths.root
        account = "" if self.home else f"User={user.name}\nGroup={user.group_name}\n"
        environment = (f"Environment={word(f'{name}={value}')}\n" for name, value in sorted(variables.items()))
        return f"""\
[Service]
Type=exec
{account}WorkingDirectory={directory}
{"".join(environment)}EnvironmentFile={root}/secrets.env
EnvironmentFile={root}/generated.env
{self.search}ExecStart={command}
"""

    def _enter_unit(self, workload: Workload, seen: Mounts) -> str:
        """Return the template of the units in which programs run beside the agent. They start no lease."""
        required, processes = " ".join(self.required), workload.processes
        writes = dict.fromkeys(path for process in processes for path in process.writable)
        confined = self._confined(self.paths.home, *writes, browser=any(process.browser for process in processes))
        command = f"python3 -I -S {self.paths.etc}/enter.py inside %i"
        return f"""\
[Unit]
Description=A program beside {self.agent.name}
Requisite={required}
PartOf={required}
After={required}
JoinsNamespaceOf={" ".join(self.unit(process.name) for process in processes)}
{seen.conditions}CollectMode=inactive-or-failed
StartLimitIntervalSec=0

{self._service(self.paths.home, common_variables(workload, self.path), command)}TimeoutStopSec=10
{seen.service}{confined.lines()}"""

    def _process_unit(self, process: Process, seen: Mounts) -> str:
        required = " ".join(self.required)
        # systemd expands variables in command lines only.
        command = " ".join(word(each).replace("$", "$$") for each in process.argv)
        return f"""\
[Unit]
Description={process.name} of {self.agent.name}
BindsTo={required}
After={required} network-online.target
Wants=network-online.target
{seen.conditions}StartLimitIntervalSec=0

{self._service(process.directory, variables(process, self.path), command)}Restart={process.restart}
RestartSec={process.restart_seconds:g}
SuccessExitStatus={" ".join(map(str, process.clean_exits))}
RestartPreventExitStatus={" ".join(map(str, process.fatal_exits))}
RestartForceExitStatus={" ".join(map(str, process.restart_exits))}
KillMode=mixed
TimeoutStopSec={process.stop_seconds}
{seen.service}{self._confined(self.paths.home, *process.writable, browser=process.browser).lines()}"""
