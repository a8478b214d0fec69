"""Render a workload as one container and the unit that supervises it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

from paddock.base.frozen import frozen
from paddock.channels.onboard import Request
from paddock.channels.sent import text
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import AgentSpec
from paddock.kinds.workload import Health, ImageContract, Paths, Process, Program, Workload
from paddock.onboard.apply import RecordVerified
from paddock.onboard.engine.containers import Engine as AskedEngine
from paddock.onboard.observe import Observe
from paddock.onboard.systemd.look import Inspect
from paddock.onboard.systemd.units import Remove
from paddock.runtimes.bundle import Bundle, BundleFile, quote
from paddock.runtimes.contract import Isolation, Runtime, environment_of
from paddock.runtimes.engine.container import AgentContainer
from paddock.runtimes.engine.unit import files as health_files
from paddock.runtimes.engine.unit import unit
from paddock.runtimes.systemd.runtime import Systemd

# The programs that install packages of a distribution, which need root.
_INSTALLERS: Final = ("apt", "apt-get", "dnf", "dpkg")


@frozen
class Engine(Runtime):
    """The runtimes ``docker`` and ``podman``."""

    agent: AgentId
    spec: AgentSpec
    folder: Path  # the folder of the agent's file; a relative archive path starts there
    home: str | None = None  # the home of the account that runs the agent without root
    formers: Sequence[AgentId] = ()  # ids under which the agent may be deployed so far

    @property
    def init(self) -> str:
        return self._units.init

    # Where things are

    @property
    def paths(self) -> Paths:
        return self._units.paths

    @property
    def inside(self) -> Paths:
        return self.container.inside

    @property
    def owners(self) -> Sequence[str]:
        return self._units.owners

    @property
    def _units(self) -> Systemd:
        return Systemd(self.agent, self.spec, self.home, self.formers)

    @cached_property
    def container(self) -> AgentContainer:
        return AgentContainer(self.agent, self.spec, self.folder, self._units)

    # Rendering

    def bundle(
        self,
        workload: Workload,
        tree: str | None,
        *,
        mounted: bool,
        health: Health = None,
        neighbours: Sequence[str] = (),
    ) -> Bundle:
        container = self.container
        below, beyond = self._directories(workload)
        workload = replace(workload, directories=below)
        if not container.brings_code:
            rendered = replace(workload, processes=[self._at_home(process) for process in workload.processes])
            start, processes = "start.sh", {each.name: _program(each, beyond) for each in rendered.processes}
        else:
            contract = container.contract(workload)
            rendered = replace(workload, processes=[self._as_image(contract, workload.processes[0])])
            start, processes = "start_image.sh", {"main": _main(contract)}
        name, required, search = self._units.unit("container"), self._units.required, self._units.search
        described = (self.agent.name, container.engine, required, self.paths.etc, search)
        units = {name: unit(*described, rendered.processes)}
        filters = self._units.filters(workload, self.spec.user.uid, neighbours)
        more = container.variables(rendered)
        framed = self._units.bundle_of(units, rendered, tree, mounted=mounted, filters=filters, more=more)
        files = {
            **container.files(workload),
            "environment": environment_of(rendered),
            "start": text(start),
            "enter": text("enter_container.sh"),
            "attach": text("attach.sh"),
            "halt": text("halt.sh"),
            **({"relock": text("relock.sh")} if container.brings_code else {}),
            **health_files(health),
            **{f"processes/{name}": program for name, program in processes.items()},
        }
        commands = {
            f"programs/{program.name}": BundleFile(self._command(program), executable=True)
            for program in rendered.programs
        }
        if self.spec.container.writable:
            commands |= {f"bin/{name}": BundleFile(_as_root(name), executable=True) for name in _INSTALLERS}
        return Bundle({**framed.files, **{path: BundleFile(content) for path, content in files.items()}, **commands})

    def _directories(self, workload: Workload) -> tuple[list[str], list[str]]:
        """Return the workload's directories below the home, and those that are elsewhere in the container."""
        home = f"{self.container.inside.home}/"
        own = [each.removeprefix(home) for each in workload.directories]
        return [each for each in own if not each.startswith("/")], [each for each in own if each.startswith("/")]

    def _at_home(self, process: Process) -> Process:
        # HOME is in the container's own layer. What pip and npm install is in the state: another container has it too.
        own = f"{self.container.inside.home}/.local"
        installing = {"PYTHONUSERBASE": own, "NPM_CONFIG_PREFIX": own, "PIP_BREAK_SYSTEM_PACKAGES": "1"}
        environment = {**installing, **process.environment, "HOME": f"/home/{self.spec.user.name}"}
        path = dict.fromkeys([f"{self.paths.etc}/bin", *process.path, f"{own}/bin"])
        return replace(process, environment=environment, path=tuple(path))

    def _as_image(self, contract: ImageContract, process: Process) -> Process:
        kept = {name: value for name, value in process.environment.items() if name not in contract.own}
        account = {contract.uid: str(self.spec.user.uid), contract.gid: str(self.container.gid)}
        # The image's entrypoint runs as root, so its PATH has no directory that the agent can write to.
        path = [each for each in process.path if each.startswith(f"{self.paths.etc}/")]
        return replace(process, argv=contract.argv, environment={**kept, **contract.environment, **account}, path=path)

    def _command(self, program: Program) -> str:
        """Return the script of a command on the machine that runs the agent's program in its container."""
        name = program.name
        refusal = f"{name} runs in the container of {self.agent.name}, which only root can enter: sudo {name}"
        only_root = "" if self.home else f'[ "$(id -u)" = 0 ] || {{ echo {quote(refusal)} >&2; exit 1; }}\n'
        return f'#!/bin/sh\n{only_root}exec {shlex.join(self.enter([program.own]))} "$@"\n'

    # On the machine

    @property
    def manager(self) -> str:
        return self._units.manager

    def observe(self, packages: Sequence[str], distribution: str = "") -> Observe:
        engine = self.container.engine
        asked = AskedEngine(
            engine.program, self.container.name, self.container.image.name, engine.packages, engine.info
        )
        return Observe(self.deployed, tuple(packages), distribution, asked)

    def remove(self) -> Request:
        return Remove(self.deployed, self.container.engine.program)

    @property
    def confines(self) -> frozenset[Isolation]:
        account = frozenset() if self.home else frozenset({Isolation.ACCOUNT})
        own = account | {Isolation.SYSTEM_CALLS, Isolation.PROC, Isolation.SYS}
        if self.container.brings_code or self.spec.container.may_become_root:
            return own
        return own | {Isolation.CAPABILITIES, Isolation.PRIVILEGES}

    def supervised(self, workload: Workload) -> Sequence[str]:
        return ["container"]

    def inspect(self) -> Inspect:
        return Inspect(self.deployed, self.container.engine.program, self.container.name)

    def record_verified(self, bundle_id: str) -> Request:
        return RecordVerified(self.deployed, bundle_id, self.container.engine.program)

    def enter(self, argv: Sequence[str]) -> Sequence[str]:
        # The program in the container starts as root, and becomes the agent's account at once.
        start = 'terminal=; [ ! -t 0 ] || terminal=--tty; exec "$0" exec --interactive $terminal "$@"'
        within = [self.container.engine.program, self.container.name, "/bin/sh", f"{self.paths.etc}/enter"]
        return ["sh", "-c", start, *within, *argv]

    def logs(self, lines: int, *, follow: bool) -> Sequence[str]:
        return self._units.logs(lines, follow=follow)


def _as_root(name: str) -> str:
    """Return the agent's program that runs an installer of the distribution as root of the container."""
    return f'#!/bin/sh\nexec sudo -- /usr/bin/{name} "$@"\n'


def _main(contract: ImageContract) -> str:
    """Return the end of the script that becomes the image's entrypoint."""
    removed = f"rm -f -- {shlex.join(contract.forgotten)} || true\n" if contract.forgotten else ""
    return f'{removed}exec "$@" {shlex.join(contract.argv)}\n'


def _program(process: Process, directories: Sequence[str]) -> str:
    """Return the script that makes the directories and starts a process, as the agent's account."""
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(process.environment.items()))
    path = f'export PATH={shlex.quote(":".join(process.path))}:"$PATH"\n' if process.path else ""
    made = f"mkdir -p -- {shlex.join(directories)}\n" if directories else ""
    return f"{exports}{path}{made}cd {shlex.quote(process.directory)}\nexec {shlex.join(process.argv)}\n"
