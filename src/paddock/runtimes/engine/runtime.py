"""Renders a workload as one container and the unit that supervises it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from paddock.errors import BadInput
from paddock.guests import Guest
from paddock.recipes.workload import CodeTree, ImageContract, Paths, Process, Program, Workload
from paddock.runtimes import Image
from paddock.runtimes.bundle import Bundle, BundleFile
from paddock.runtimes.engine import health
from paddock.runtimes.engine.archive import Archive
from paddock.runtimes.engine.compose import compose
from paddock.runtimes.engine.dialect import ROOT, Dialect, dialect_of
from paddock.runtimes.engine.identity import LABEL, digest, identity
from paddock.runtimes.engine.throwaway import Throwaway
from paddock.runtimes.engine.unit import stop_seconds, unit
from paddock.runtimes.envfile import quote
from paddock.runtimes.isolation import Isolation
from paddock.runtimes.shell import script, text
from paddock.runtimes.systemd.runtime import Systemd
from paddock.spec.models import AgentSpec

_CONFINED: Final = "--no-new-privs --inh-caps=-all --bounding-set=-all"


@dataclass(frozen=True)
class Engine:
    """The runtimes ``docker`` and ``podman``."""

    agent: str
    spec: AgentSpec
    folder: Path  # the file's, for an archive beside it
    home: str | None = None  # of the account it runs in, where that is done without root
    foreground = False

    @property
    def init(self) -> str:
        return self._units.init

    # Where things are

    @property
    def paths(self) -> Paths:
        return self._units.paths

    @property
    def inside(self) -> Paths:
        """Code and configuration are where they are on the machine; of the state, the agent sees its own part."""
        home = "/data" if not self.brings_code else "/srv/agent"
        return replace(self.paths, state=home, home=home, state_link=home)

    @property
    def _units(self) -> Systemd:
        return Systemd(self.agent, self.spec, self.home)

    @property
    def _dialect(self) -> Dialect:
        dialect = dialect_of(self.spec.runtime)
        return dialect.without_root(self.home, self.spec.user.uid, self._gid) if self.home else dialect

    @property
    def _root(self) -> str:
        return self.paths.etc.removesuffix("/current")

    @property
    def _name(self) -> str:
        return f"paddock-{self.agent}"

    @cached_property
    def _archive(self) -> Archive | None:
        path = self.spec.container.archive
        return Archive.at(self.folder / path.expanduser()) if path else None

    @property
    def _image(self) -> str:
        """The image's name on the machine."""
        name = self.spec.container.image or self.spec.container.base or ""  # the validator wants one of them
        return self._archive.name if self._archive else self._dialect.reference(name)

    # The container, to those who plan and make it

    @property
    def container(self) -> Engine:
        return self

    @property
    def engine(self) -> str:
        return self._dialect.program

    @property
    def service(self) -> str | None:
        return self._dialect.service

    @property
    def packages(self) -> Sequence[str]:
        return self._dialect.packages if self.spec.container.install else ()

    @property
    def data(self) -> str:
        return self._dialect.data

    @property
    def image(self) -> Image:
        return Image(self._image, self._archive.path if self._archive else None)

    @property
    def brings_code(self) -> bool:
        return self.spec.container.image is not None

    def identity(self, workload: Workload) -> str:
        return identity(
            {
                "image": [self._image],
                "volumes": self._volumes(workload),
                "options": self.spec.container.options,
                "limits": self._limits,
                **({"account": [self._dialect.users]} if self._dialect.users else {}),
            }
        )

    def tree(self, tree: CodeTree) -> str:
        # Made with the image's own interpreter, so that another image needs another one.
        return f"{tree.id}-{digest([self._image])[:8]}"

    def builder(self, machine: Guest) -> Guest:
        return Throwaway(machine, self.engine, self._image, self.paths.code.rpartition("/")[0])

    def sample(self, machine: Guest) -> Guest:
        return Throwaway(machine, self.engine, self._image, folder=None)

    def trial(self, workload: Workload) -> Sequence[str]:
        if self.brings_code:
            return ["/bin/sh", "-c", ":"]
        variables = "".join(f"{name}={quote(value)}\n" for name, value in self._variables(workload).items())
        return ["/bin/sh", "-c", variables + text("engine/trial.sh")]

    def load(self) -> Sequence[str]:
        verb = self._archive.verb if self._archive else "load"
        return script("engine/load.sh", [self.engine, verb])

    def create(self, bundle_id: str, *, replaces: bool) -> Sequence[str]:
        arguments = [self._units.manager, self._root, bundle_id, "replace" if replaces else ""]
        return script("engine/create.sh", arguments)

    # Rendering

    def bundle(self, workload: Workload, tree: str | None, *, mounted: bool) -> Bundle:
        if not self.brings_code:
            rendered = replace(workload, processes=[self._at_home(process) for process in workload.processes])
            start, processes = "engine/start.sh", {each.name: _program(each) for each in rendered.processes}
        else:
            contract = self._contract(workload)
            rendered = replace(workload, processes=[self._as_image(contract, workload.processes[0])])
            start, processes = "engine/start_image.sh", {"main": f'exec "$@" {shlex.join(contract.argv)}\n'}
        lease, name = self._units.unit("lease"), self._units.unit("container")
        units = {name: unit(self.agent, self._name, self._dialect, lease, self.paths.etc, rendered.processes)}
        framed = self._units.bundle_of(units, rendered, tree, mounted=mounted, more=self._variables(rendered))
        files = {
            "create": self._create(workload),
            "docker-compose.yml": self._compose(workload),
            "start": text(start),
            "enter": text("engine/enter_container.sh"),
            "halt": text("engine/halt.sh"),
            "health": health.script(workload),
            **{f"processes/{name}": program for name, program in processes.items()},
        }
        commands = {
            f"programs/{program.name}": BundleFile(self._command(program), executable=True)
            for program in rendered.programs
        }
        return Bundle({**framed.files, **{path: BundleFile(content) for path, content in files.items()}, **commands})

    def _contract(self, workload: Workload) -> ImageContract:
        if workload.image is None:
            raise BadInput(
                f"{self.agent} is a {self.spec.kind}, which has no image of its own",
                hint="write base: instead of image:, a distribution its command runs in",
            )
        return workload.image

    def _home(self, workload: Workload) -> str:
        return f"/home/{self.spec.user.name}" if not self.brings_code else self._contract(workload).home

    def _at_home(self, process: Process) -> Process:
        # In the container's own layer, so that what is installed there stays with the rest that is installed.
        return replace(process, environment={**process.environment, "HOME": f"/home/{self.spec.user.name}"})

    def _as_image(self, contract: ImageContract, process: Process) -> Process:
        kept = {name: value for name, value in process.environment.items() if name not in contract.own}
        account = {contract.uid: str(self.spec.user.uid), contract.gid: str(self._gid)}
        # The image's entrypoint runs as root: no directory that the agent can write is on its PATH.
        path = [each for each in process.path if each.startswith(f"{self.paths.etc}/")]
        return replace(process, argv=contract.argv, environment={**kept, **contract.environment, **account}, path=path)

    @property
    def _gid(self) -> int:
        return self.spec.user.gid or self.spec.user.uid

    def _variables(self, workload: Workload) -> dict[str, str]:
        container, user = self.spec.container, self.spec.user
        sudo = container.sudo and not self.brings_code
        return {
            "ENGINE": self.engine,
            "SERVICE": self.service or "",
            "CONTAINER": self._name,
            "STOP_SECONDS": str(stop_seconds(workload.processes)),
            "IMAGE": self._image,
            "USER_NAME": user.name,
            "USER_UID": str(user.uid),
            "USER_GROUP": user.group_name,
            "USER_GID": str(self._gid),
            "ACCOUNT_HOME": self._home(workload),
            "DATA": self.inside.home,
            "PACKAGES": " ".join(self.spec.packages),
            "SUDO": "yes" if sudo else "",
            "CONFINED": "" if sudo else _CONFINED,
        }

    def _command(self, program: Program) -> str:
        """A command for everyone on the machine: the agent's own, for whoever gets into its container."""
        name = program.name
        refusal = f"{name} runs in the container of {self.agent}, which only root gets into: sudo {name}"
        only_root = "" if self.home else f'[ "$(id -u)" = 0 ] || {{ echo {quote(refusal)} >&2; exit 1; }}\n'
        return f'#!/bin/sh\n{only_root}exec {shlex.join(self.enter([program.own]))} "$@"\n'

    # The container

    def _binds(self, workload: Workload) -> Iterator[tuple[str, str, str]]:
        """What of the machine is in the container: where there, where here, and how."""
        yield self._root, self._root, "ro"
        if not self.brings_code:
            top = self.paths.code.rpartition("/")[0]
            yield top, top, "ro"
        yield self.paths.home, self.inside.home, "rw"
        if self.brings_code:
            for below, path in sorted(self._contract(workload).state.items()):
                yield f"{self.paths.home}/{below}", path, "rw"
        for mount in self.spec.mounts:
            yield mount.host, mount.path, "ro" if mount.read_only else "rw"

    def _volumes(self, workload: Workload) -> list[str]:
        return [*(":".join(bind) for bind in self._binds(workload)), *self.spec.container.volumes]

    @property
    def _limits(self) -> list[str]:
        container = self.spec.container
        return [
            *("--shm-size", str(container.shm_size)),
            *(["--memory", str(container.memory)] if container.memory else []),
            *(["--cpus", f"{container.cpus:g}"] if container.cpus else []),
        ]

    def _create(self, workload: Workload) -> str:
        words = [
            *("--label", f"{LABEL}={self.identity(workload)}"),
            # Loopback is the machine's, where the agent is asked; nothing else would listen there for it.
            *("--network", "host"),
            # The journal has what the agent says; the engine need not keep it a second time, without end.
            *("--restart", "no", "--log-driver", "none"),
            *(health.options(f"{self.paths.etc}/health") if self._dialect.asks_health else ("--no-healthcheck",)),
            *(word for volume in self._volumes(workload) for word in ("--volume", volume)),
            *self._limits,
            *(("--userns", self._dialect.users, "--user", ROOT) if self._dialect.users else ()),
            *self.spec.container.options,
            *("--entrypoint", "/bin/sh", self._image, f"{self.paths.etc}/start"),
        ]
        checks = "".join(
            f"[ -d {folder} ] || {{ echo there is no directory {folder} on this machine to mount >&2 && exit 78; }}\n"
            for folder in (shlex.quote(mount.host) for mount in self.spec.mounts)
        )
        head = "# create NAME ENTRYPOINT...: makes the container; the entrypoint is the image's own.\nname=$1\nshift\n"
        return f'{head}{checks}exec {self.engine} create --name "$name" {shlex.join(words)} "$@"\n'

    def _compose(self, workload: Workload) -> str:
        container, asks = self.spec.container, self._dialect.asks_health
        service: dict[str, Any] = {
            "image": self._image,
            "container_name": self._name,
            "labels": {LABEL: self.identity(workload)},
            "network_mode": "host",
            "stop_grace_period": f"{stop_seconds(workload.processes)}s",
            "healthcheck": health.composed(f"{self.paths.etc}/health") if asks else {"disable": True},
            "shm_size": str(container.shm_size),
            "volumes": self._volumes(workload),
            **({"mem_limit": str(container.memory)} if container.memory else {}),
            **({"cpus": container.cpus} if container.cpus else {}),
            **({"userns_mode": self._dialect.users, "user": ROOT} if self._dialect.users else {}),
        }
        if not self.brings_code:
            service["entrypoint"] = ["/bin/sh", f"{self.paths.etc}/start"]
        else:
            service["command"] = list(self._contract(workload).argv)
            names = ("current/environment", "secrets.env", "generated.env")
            service["env_file"] = [f"{self._root}/{name}" for name in names]
        return compose(self.agent, service, container.options)

    # On the machine

    def observe(self, packages: Sequence[str]) -> Sequence[str]:
        argv = script("engine/observe.sh", self._units.observed(packages))
        return self._with(argv, IMAGE=self._image, INFO=self._dialect.info)

    def apply(self, bundle_id: str) -> Sequence[str]:
        return script("engine/apply.sh", [self._units.manager, self._root, bundle_id])

    def remove(self) -> Sequence[str]:
        return self._with(script("engine/remove.sh", self._units.removed))

    @property
    def confines(self) -> frozenset[Isolation]:
        account = frozenset() if self.home else frozenset({Isolation.ACCOUNT})
        own = account | {Isolation.SYSTEM_CALLS, Isolation.PROC, Isolation.SYS}
        if self.brings_code or self.spec.container.sudo:
            return own
        return own | {Isolation.CAPABILITIES, Isolation.PRIVILEGES}

    def supervised(self, workload: Workload) -> Sequence[str]:
        return ["container"]

    def inspect(self) -> Sequence[str]:
        return self._with(script("engine/inspect.sh", [self._units.manager, self.agent, self._root]))

    def record_verified(self, bundle_id: str) -> Sequence[str]:
        return self._units.record_verified(bundle_id)

    def enter(self, argv: Sequence[str]) -> Sequence[str]:
        return script("engine/enter.sh", [self.engine, self._name, self._root, *argv])

    def logs(self, lines: int, *, follow: bool) -> Sequence[str]:
        return self._units.logs(lines, follow=follow)

    def _with(self, argv: Sequence[str], **more: str) -> list[str]:
        variables = {"ENGINE": self.engine, "CONTAINER": self._name, **more}
        return ["env", *(f"{name}={value}" for name, value in variables.items()), *argv]


def _program(process: Process) -> str:
    """A process as the script the agent's account runs."""
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(process.environment.items()))
    path = f'export PATH={shlex.quote(":".join(process.path))}:"$PATH"\n' if process.path else ""
    return f"{exports}{path}cd {shlex.quote(process.directory)}\nexec {shlex.join(process.argv)}\n"
