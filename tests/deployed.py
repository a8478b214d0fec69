"""Recorded deployments of earlier versions: load the node into memory, and put the files on real machines."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, cast

from live.images import base_root
from live.test_native import ACCOUNT, SOMEONE
from paddock.base.process import Result
from paddock.core.deployment import Deployment
from paddock.file.models.whole import Scope, neighbours
from paddock.kinds import load
from paddock.onboard.program.frozen import decoded
from paddock.places.contract import AnyPlace
from paddock.places.host.place import HostPlace
from paddock.places.proxmox.node.notes import Mark
from paddock.plan.agent import AgentSeen
from paddock.show.reporter import Reporter
from paper import PaperSide
from places.node import Node, PaperAgent, address_of
from pvebox.standins.stage import server
from reported import seen

DATA: Final = Path(__file__).parent / "data/deployed"

# The account without root, with a range of users that also exists on a host that is an unprivileged LXC container.
_ACCOUNT: Final = f"""
{ACCOUNT}
sed -i '/^someone:/d' /etc/subuid /etc/subgid
usermod --add-subuids 20000-59999 --add-subgids 20000-59999 someone
"""
_ENGINES: Final = {
    "docker": "apt-get update -qq && apt-get install -y -qq docker.io >/dev/null 2>&1",
    "podman": "apt-get update -qq && apt-get install -y -qq --no-install-recommends podman runc uidmap >/dev/null 2>&1",
}
_AS_ACCOUNT: Final = f"cd / && {SOMEONE} USER=someone"  # Podman looks up its range of users by this name
# Creates the account of each bundle, as `up` did, and starts the units that were started at boot.
_START: Final = """
for users in /etc/paddock/*/current/sysusers.conf; do
    [ ! -e "$users" ] || systemd-sysusers "$users"
done
systemctl daemon-reload
systemctl try-restart ssh # the recorded machines of a node have their own host keys
for unit in /etc/systemd/system/multi-user.target.wants/paddock-*; do
    [ ! -e "$unit" ] || systemctl start "${unit##*/}"
done
"""
# Since version 0.2, `up` also closes the account to logins.
_CLOSE: Final = """
for account in $(sed -n 's/^u \\([^ ]*\\) .*/\\1/p' /etc/paddock/*/current/sysusers.conf); do
    usermod --expiredate 1 --shell /usr/sbin/nologin "$account"
done
"""
_START_IN_ACCOUNT: Final = f"""
{SOMEONE} systemctl --user daemon-reload
for unit in /home/someone/.config/systemd/user/default.target.wants/paddock-*; do
    {SOMEONE} systemctl --user start "${{unit##*/}}"
done
"""


class Runner(Protocol):
    """Runs programs as root on a machine, as every guest does."""

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result: ...


@dataclass(frozen=True)
class Deployed:
    """One recorded shape: the file that was deployed, and everything that was read from its machines."""

    shape: str
    version: str = "v1"

    @property
    def folder(self) -> Path:
        return DATA / self.version / self.shape

    @property
    def without_root(self) -> bool:
        """Whether everything is in an account of the machine."""
        return self.shape.endswith("-account")

    def write_file(self, folder: Path) -> Path:
        """Copy the file and the secrets that it names, and return the path of the file."""
        for path in self.folder.iterdir():
            if path.suffix in ("", ".pub", ".yaml", ".key"):
                shutil.copyfile(path, folder / path.name)
                (folder / path.name).chmod(0o600)
        return folder / "paddock.yaml"

    def tree(self, agent: str) -> Path:
        """Return the archive of the files that Paddock wrote for an agent on its machine."""
        return self.folder / f"{agent}.tar.gz"

    def bundle(self, agent: str) -> dict[str, str]:
        """Return the files of the agent's current bundle, by their path below its folder."""
        folder, files = f"/home_{agent}/{self.inside(agent).bundle_id}/", {}
        with tarfile.open(self.tree(agent)) as tree:
            for member in tree:
                _, found, path = member.name.partition(folder)
                if found and (content := tree.extractfile(member)):
                    files[path] = content.read().decode()
        return files

    def container(self, agent: str) -> dict[str, Any]:
        """Return the description of the agent's container."""
        return dict(json.loads((self.folder / f"{agent}.container.json").read_text()))

    def inside(self, agent: str) -> AgentSeen:
        """Return what the machine reported when it was recorded."""
        found = json.loads((self.folder / f"{agent}.observed.json").read_text())
        if isinstance(found, dict):
            return cast(AgentSeen, decoded(AgentSeen, found))
        return seen([(name, value) for name, value in found])  # of a version whose machines reported records


@dataclass(frozen=True)
class PaperNode:
    """A simulated node with the recorded containers, and the file that was deployed there."""

    node: Node
    file: Path

    def agent(self, name: str) -> PaperAgent:
        """Return an agent of the file, to which a person has added the project."""
        loaded = load(self.file, sets=["project=home"])
        return replace(self.node.agent_of(loaded, name), neighbours=neighbours(name, loaded.spec))


def node_state(version: str = "v1") -> dict[str, Any]:
    """Return the recorded node as a fixture of the sandbox."""
    return dict(json.loads((Deployed("proxmox", version).folder / "node.json").read_text()))


def paper_node(folder: Path, version: str = "v1") -> PaperNode:
    """Load the recorded node into memory. Its machines report what they reported when they were recorded."""
    recorded = Deployed("proxmox", version)
    node = Node(folder, given=node_state(version))
    for vmid in node.vmids:
        config = node.config(vmid)
        mark = Mark.from_notes(str(config["description"]))
        assert mark, f"the notes of container {vmid} have no readable mark"
        if mark.host_keys:
            node.machines.host_keys[vmid] = mark.host_keys[-1]
        if vmid in node.running:
            node.machines.inside[address_of(vmid)] = recorded.inside(str(config["hostname"]))
    return PaperNode(node, recorded.write_file(folder))


class _RecordedHost(HostPlace):
    def account_home(self) -> str | None:
        return "/home/someone" if self._spec.scope is Scope.USER else None


def paper_host(folder: Path, deployed: Deployed, name: str) -> Deployment:
    """Return an agent of a recorded host, which reports what it reported when it was recorded."""
    loaded = load(deployed.write_file(folder))
    spec = loaded.spec.places["box"].host
    assert spec
    place = cast("AnyPlace", _RecordedHost("box", spec, loaded.folder))
    return Deployment.declared(name, loaded, place, Reporter(), PaperSide({"box": deployed.inside(name)}))


# On real machines


@dataclass(frozen=True)
class NodeConsole:
    """Root in a container of a sandbox, from the shell of the node: works before ssh does."""

    state: Path  # the directory of the sandbox
    vmid: int

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        given = self.state / f"given-{self.vmid}"
        given.write_bytes(stdin if isinstance(stdin, bytes) else stdin.read_bytes())
        pushed = self._pct("push", str(self.vmid), str(given), "/root/given")
        given.unlink()
        assert pushed.ok, pushed.err
        script = f"exec </root/given && rm /root/given && {shlex.join(argv)}"
        return self._pct("exec", str(self.vmid), "--", "sh", "-c", script)

    def _pct(self, *words: str) -> Result:
        command = [sys.executable, "-m", "pvebox", "root", "--state", str(self.state), "--", "pct", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return Result(tuple(command), done.returncode, done.stdout, done.stderr, 0)


@contextmanager
def sandbox(folder: Path, described: Mapping[str, Any], *options: str) -> Iterator[dict[str, Any]]:
    """Run a sandbox with real containers that begins as a fixture describes it, and yield its ready line."""
    state, fixture = folder / "sandbox", folder / "fixture.json"
    fixture.write_text(json.dumps(described))
    place = ("--runtime", "lxc", "--state", str(state), "--port", "0", "--mmp-wait", "0")
    words = (*place, "--fixture", str(fixture), *options)
    try:
        with server(folder, "pvebox", "serve", *words) as ready:
            yield ready
    finally:
        subprocess.run([sys.executable, "-m", "pvebox", "clean", "--state", str(state)], check=True)


def prepare_machine(machine: Runner, engine: str, *, without_root: bool) -> None:
    """Make a fresh machine what it was before Paddock: with the account, the engine, and the image debian:12."""
    if without_root:
        shell(machine, _ACCOUNT, deadline=300)
    if engine in _ENGINES:
        shell(machine, _ENGINES[engine], deadline=300)
        import_image(machine, engine, without_root=without_root)


def import_image(machine: Runner, engine: str, *, without_root: bool = False) -> None:
    """Import the Debian of the sandbox under the name of an image in a registry, which the sandbox cannot reach."""
    name = "debian:12" if engine == "docker" else "docker.io/library/debian:12"
    with tempfile.TemporaryDirectory(prefix="paddock-image-") as folder:
        archive = base_root(Path(folder) / "image.tar.gz")
        shell(machine, f"{by_engine(engine, without_root=without_root)} import - {name}", stdin=archive, deadline=300)


def by_engine(engine: str, *, without_root: bool) -> str:
    """Return the beginning of a command of the engine, as the account that owns the container."""
    return f"{_AS_ACCOUNT} {engine}" if without_root else engine


def put_on(machine: Runner, deployed: Deployed, agent: str) -> None:
    """Put an agent's recorded files on a prepared machine, create its container, and start its units."""
    extract = "tar --extract --gzip --numeric-owner --same-owner --same-permissions --directory /"
    shell(machine, extract, stdin=deployed.tree(agent))
    if deployed.without_root:
        shell(machine, "chown someone: /home/someone/.config /home/someone/.local /home/someone/.local/share")
    if (deployed.folder / f"{agent}.container.json").exists():
        _create_container(machine, deployed, agent)
    shell(machine, _START_IN_ACCOUNT if deployed.without_root else _START)
    if deployed.version != "v1" and not deployed.without_root:
        shell(machine, _CLOSE)


def _create_container(machine: Runner, deployed: Deployed, agent: str) -> None:
    described = deployed.container(agent)
    name = described["name"]
    etc = "/home/someone/.config/paddock" if deployed.without_root else "/etc/paddock"
    become = _AS_ACCOUNT if deployed.without_root else ""
    words = name if deployed.version == "v1" else f"{name} {described['image']}"
    create = f"{etc}/{name.removeprefix('paddock-')}/current/create"
    shell(machine, f"{become} sh {create} {words}", deadline=120)


def shell(machine: Runner, script: str, *, stdin: bytes | Path = b"", deadline: float = 60.0) -> str:
    """Run a script that must succeed, and return its output."""
    done = machine.run(["sh", "-c", f"set -e\n{script}"], stdin=stdin, deadline=deadline)
    assert done.ok, f"{script}\n{done.err}"
    return done.out
