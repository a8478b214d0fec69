"""The agent's container: its image, its identity, and the commands that build, try and create it."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from paddock.base.errors import BadInput
from paddock.base.frozen import frozen
from paddock.base.process import Pipes, Result
from paddock.channels import Guest, expect
from paddock.channels.onboard import Request
from paddock.channels.sent import text
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import AgentSpec
from paddock.kinds.code import CodeTree
from paddock.kinds.workload import ImageContract, Paths, Workload
from paddock.onboard.configure import Sent
from paddock.onboard.engine.create import Create
from paddock.onboard.engine.images import PullImage, UsableImage
from paddock.runtimes.bundle import quote
from paddock.runtimes.engine import unit
from paddock.runtimes.engine.archive import Archive
from paddock.runtimes.engine.dialect import ROOT, Dialect, dialect_of
from paddock.runtimes.engine.unit import stop_seconds
from paddock.runtimes.systemd.runtime import Systemd

_SCHEMA: Final = 1  # a new number recreates every container; use one only if older containers would not work

LABEL: Final = "paddock.identity"
AGENT_LABEL: Final = "paddock.agent"  # the id of the agent


def identity(parts: Mapping[str, Sequence[str]]) -> str:
    """Return the container's label: a short hash of each part, so that a plan can name the changed part."""
    words = [f"{name}={digest(values)}" for name, values in sorted(parts.items())]
    return " ".join([f"schema={_SCHEMA}", *words])


def digest(values: Sequence[str]) -> str:
    """Return a short hash of a list of strings."""
    return hashlib.sha256("\0".join(values).encode()).hexdigest()[:12]


def compose(service: str, container: dict[str, Any], options: Sequence[str]) -> str:
    """Return a file for Compose 1.27 or newer. It cannot contain the command line options of the container."""
    text = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump({"services": {service: container}}, text)
    about = "# The container that `paddock up` creates. Run by hand, it does not hold the lease on the state.\n"
    left_out = f"# Options that a compose file cannot contain: {' '.join(options)}\n" if options else ""
    return about + left_out + text.getvalue()


@frozen
class Throwaway:
    """A guest that runs each program in a new container of an image, with one folder of the machine mounted."""

    machine: Guest
    engine: str
    image: str
    folder: str | None

    @property
    def name(self) -> str:
        return f"the image {self.image}"

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        return self.machine.run(self._inside(argv), stdin=stdin, deadline=deadline)

    def attach(self, argv: Sequence[str], *, terminal: bool) -> int:
        return self.machine.attach(self._inside(argv), terminal=terminal)

    def stream(self, argv: Sequence[str], out: Callable[[str], None], err: Callable[[str], None]) -> int:
        return self.machine.stream(self._inside(argv), out, err)

    def piped(self, argv: Sequence[str]) -> AbstractContextManager[Pipes]:
        return self.machine.piped(self._inside(argv))

    def forward(self, local: int, port: int) -> int:
        return self.machine.forward(local, port)

    def _inside(self, argv: Sequence[str]) -> list[str]:
        options = ["--rm", "--interactive", "--network", "none", "--env", "THROWAWAY=yes"]
        volume = ["--volume", f"{self.folder}:{self.folder}"] if self.folder else []
        run = [self.engine, "run", *options, *volume, "--entrypoint", argv[0], self.image, *argv[1:]]
        # Docker creates a missing folder, Podman does not.
        made = ["sh", "-c", 'umask 022 && mkdir -p "$0" && exec "$@"', self.folder] if self.folder else []
        return [*made, *run]


_NO_NEW: Final = "no-new-privileges"
# Without network and state: what runs in the image, and not whether it is configured well.
_TRIED: Final = """\
{proof} >/dev/null && exit
code=$?
[ "$code" != 127 ] || {{ echo {absent} >&2 && exit 78; }}
exit "$code"
"""
_PREPARED: Final = "/dev/shm/paddock-prepared"  # noqa: S108 # empty at each start; start.sh makes it before the agent runs
_CONFINED: Final = "--no-new-privs --inh-caps=-all --bounding-set=-all"


@frozen
class Image:
    """An image by its name on the machine, and where it comes from."""

    name: str
    archive: Path | None = None  # a file on the computer that runs Paddock; None means that the engine pulls the image
    load: Sequence[str] = ()  # the argv that reads the archive from stdin, and prints what it has loaded


@frozen
class AgentContainer:
    """The container of one agent. Only ``trial`` and the guest of ``builder`` run anything."""

    agent: AgentId
    spec: AgentSpec
    folder: Path  # the folder of the agent's file; a relative archive path starts there
    units: Systemd  # the agent's units and paths on the machine

    @property
    def name(self) -> str:
        return f"paddock-{self.agent}"

    @property
    def engine(self) -> Dialect:
        """The engine: its program, packages, daemon unit and data folder."""
        home, dialect = self.units.home, dialect_of(self.spec.runtime)
        if home:
            dialect = dialect.without_root(home, self.spec.user.uid, self.gid)
        return dialect if self.spec.container.install else replace(dialect, packages=())

    @cached_property
    def image(self) -> Image:
        """The image that the container is created from."""
        if path := self.spec.container.archive:
            archive = Archive.at(self.folder / path.expanduser())
            load = [self.engine.program, archive.verb, *(["-"] if archive.verb == "import" else [])]
            return Image(archive.name, archive.path, load)
        named = self.spec.container.image or self.spec.container.base or ""  # validation requires one of them
        return Image(self.engine.reference(named))

    @property
    def brings_code(self) -> bool:
        """Whether the image contains the agent's code."""
        return self.spec.image_brings_code

    @property
    def inside(self) -> Paths:
        """The paths that the agent's processes see in the container."""
        home = "/data" if not self.brings_code else "/srv/agent"
        return replace(self.units.paths, state=home, home=home, state_link=home)

    def identity(self, workload: Workload) -> str:
        """Return the identity label. A container whose label differs has to be recreated."""
        users = self.engine.users
        return identity(
            {
                "image": [self.image.name],
                "volumes": self._volumes(workload),
                "options": [*self.spec.container.options, *self._fewer_privileges],
                "limits": self._limits,
                **({"account": [users]} if users else {}),
            }
        )

    def tree(self, tree: CodeTree) -> str:
        """Return the name of a code tree built for this container."""
        # The tree is built with the interpreter of the image, so each image needs its own tree.
        return f"{tree.id}-{digest([self.image.name])[:8]}"

    def base(self, pythons: Sequence[str]) -> Request:
        """Return the request for the image to run: the base, or an image made from it with one of the Pythons."""
        return UsableImage(self.engine.program, self.image.name, str(self.agent), text("packages.sh"), tuple(pythons))

    def builder(self, machine: Guest, image: str) -> Guest:
        """Return a guest that runs each command in a new container of an image, with the code store mounted."""
        return Throwaway(machine, self.engine.program, image, self.units.paths.code.rpartition("/")[0])

    def trial(self, machine: Guest, image: str, workload: Workload) -> None:
        """Try in a throwaway container that the image has the agent's code, or can run it."""
        if self.brings_code:
            absent = f"paddock: {self.image.name} has no {self.spec.kind} in it; write base: for a distribution"
            proof = shlex.join(self.contract(workload).proof)
            program = _TRIED.format(proof=proof, absent=shlex.quote(absent))
        else:
            variables = "".join(f"{name}={quote(value)}\n" for name, value in self.variables(workload).items())
            become = "make_account\nas_agent / /bin/sh -c : 3</dev/null 4</dev/null 5</dev/null\n"
            program = f"set -eu\n{variables}{text('account.sh')}{text('users.sh')}{become}"
        sample = Throwaway(machine, self.engine.program, image, folder=None)
        expect(sample, "trying", ["/bin/sh", "-c", program], deadline=300)

    def create(self, sent: Sent, *, replaces: bool) -> Request:
        """Return the request that creates the container of a bundle.

        An existing container makes room if ``replaces`` is true; otherwise it is a refusal. It is kept until the agent
        was verified with the new one.
        """
        return Create(self.units.deployed, sent, replaces)

    @property
    def packages(self) -> Sequence[str]:
        """The packages of the distribution that the container's start installs."""
        if self.brings_code:
            return ()
        return list(dict.fromkeys([*self.spec.packages, *(["sudo"] if self.spec.container.may_become_root else [])]))

    def prepared(self) -> Sequence[str]:
        """Return the argv that succeeds when the start of the container has installed its packages."""
        return [self.engine.program, "exec", self.name, "test", "-e", _PREPARED]

    def last_words(self) -> Sequence[str]:
        """Return the argv that prints the last line of the container's log."""
        return ["sh", "-c", '"$1" logs --tail 1 "$2" 2>&1', "paddock", self.engine.program, self.name]

    def pull(self) -> Request:
        """Return the request that pulls the image and reports it, beside the image that the container runs."""
        return PullImage(self.engine.program, self.image.name, self.name)

    # Rendering, for the runtime's bundle

    def files(self, workload: Workload) -> dict[str, str]:
        """Return the files of a bundle that describe the container."""
        return {"create": self._create(workload), "docker-compose.yml": self._compose(workload)}

    def variables(self, workload: Workload) -> dict[str, str]:
        """Return the variables that the scripts in the container and on the machine read."""
        container, user = self.spec.container, self.spec.user
        sudo = container.may_become_root and not self.brings_code
        home = self.contract(workload).home if self.brings_code else f"/home/{user.name}"
        return {
            "ENGINE": self.engine.program,
            "SERVICE": self.engine.service or "",
            "CONTAINER": self.name,
            "STOP_SECONDS": str(stop_seconds(workload.processes)),
            "IMAGE": self.image.name,
            "USER_NAME": user.name,
            "USER_UID": str(user.uid),
            "USER_GROUP": user.group_name,
            "USER_GID": str(self.gid),
            "ACCOUNT_HOME": home,
            "DATA": self.inside.home,
            "PACKAGES": " ".join(self.packages),
            "SOCKETS": " ".join(container.sockets),
            "SUDO": "yes" if sudo else "",
            "CONFINED": "" if sudo else _CONFINED,
        }

    def contract(self, workload: Workload) -> ImageContract:
        """Return how to run an image that contains the agent's code."""
        if workload.image is None:
            raise BadInput(
                f"{self.agent.name} is a {self.spec.kind}, which has no image of its own",
                hint="write base: instead of image:, and name a distribution that its command runs in",
            )
        return workload.image

    @property
    def gid(self) -> int:
        return self.spec.user.gid or self.spec.user.uid

    def _binds(self, workload: Workload) -> Iterator[tuple[str, str, str]]:
        """The bind mounts: path on the machine, path in the container, mode."""
        paths = self.units.paths
        yield self.units.paths.root, self.units.paths.root, "ro"
        if not self.brings_code:
            top = paths.code.rpartition("/")[0]
            yield top, top, "ro"
        yield paths.home, self.inside.home, "rw"
        if self.brings_code:
            for below, path in sorted(self.contract(workload).state.items()):
                yield f"{paths.home}/{below}", path, "rw"
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

    @property
    def _fewer_privileges(self) -> list[str]:
        """Options for an image that drops root itself: the filter of connections does not see root."""
        return ["--security-opt", _NO_NEW] if self.brings_code and self.spec.network.closed else []

    def _create(self, workload: Workload) -> str:
        engine, etc = self.engine, self.units.paths.etc
        words = [
            *("--label", f"{AGENT_LABEL}={self.agent}"),
            *("--label", f"{LABEL}={self.identity(workload)}"),
            # The agent listens on the machine's loopback, where Paddock asks it.
            *("--network", "host"),
            # The journal keeps the agent's output. The engine keeps the end of it, for people who ask the engine.
            *("--restart", "no", *engine.log),
            *(unit.options(f"{etc}/health") if engine.asks_health else ("--no-healthcheck",)),
            *(word for volume in self._volumes(workload) for word in ("--volume", volume)),
            *self._limits,
            *(("--userns", engine.users, "--user", ROOT) if engine.users else ()),
            *self.spec.container.options,
            *self._fewer_privileges,
            *("--entrypoint", "/bin/sh"),
        ]
        checks = "".join(
            f"[ -d {folder} ] || {{ echo there is no directory {folder} on this machine to mount >&2 && exit 78; }}\n"
            for folder in (shlex.quote(mount.host) for mount in self.spec.mounts)
        )
        checks += "".join(self._made(volume) for volume in self.spec.container.volumes)
        head = (
            "# create NAME IMAGE ENTRYPOINT...: creates the container; ENTRYPOINT is that of the image.\n"
            "name=$1 image=$2\nshift 2\n"
        )
        start = shlex.quote(f"{etc}/start")
        return f'{head}{checks}exec {engine.program} create --name "$name" {shlex.join(words)} "$image" {start} "$@"\n'

    def _made(self, volume: str) -> str:
        """Return the line that makes the directory of a volume. The engine would make one of root's, or fail."""
        host, path, *mode = volume.split(":")
        if not host.startswith("/") or path in self.spec.container.sockets or mode == ["ro"]:
            return ""
        above, folder = shlex.quote(host.rpartition("/")[0] or "/"), shlex.quote(host)
        # In a container without root the agent is the account itself.
        owner = "" if self.engine.users else f" && chown -h {self.spec.user.uid}:{self.gid} {folder}"
        return f"[ -e {folder} ] || (umask 022 && mkdir -p {above} && mkdir {folder}{owner}) || exit 78\n"

    def _compose(self, workload: Workload) -> str:
        container, engine, etc = self.spec.container, self.engine, self.units.paths.etc
        service: dict[str, Any] = {
            "image": self.image.name,
            "container_name": self.name,
            "labels": {AGENT_LABEL: str(self.agent), LABEL: self.identity(workload)},
            "network_mode": "host",
            "stop_grace_period": f"{stop_seconds(workload.processes)}s",
            "healthcheck": unit.composed(f"{etc}/health") if engine.asks_health else {"disable": True},
            "shm_size": str(container.shm_size),
            "volumes": self._volumes(workload),
            **({"mem_limit": str(container.memory)} if container.memory else {}),
            **({"cpus": container.cpus} if container.cpus else {}),
            **({"security_opt": [_NO_NEW]} if self._fewer_privileges else {}),
            **({"userns_mode": engine.users, "user": ROOT} if engine.users else {}),
        }
        if not self.brings_code:
            service["entrypoint"] = ["/bin/sh", f"{etc}/start"]
        else:
            service["command"] = list(self.contract(workload).argv)
            names = ("current/environment", "secrets.env", "generated.env")
            service["env_file"] = [f"{self.units.paths.root}/{name}" for name in names]
        return compose(str(self.agent), service, container.options)
