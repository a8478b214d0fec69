"""An agent on a host over ssh whose version changes, and runs of Paddock that are watched or cut off at a step."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from live.broken import BROKEN, broken_wheel
from live.manual import container, destroy
from live.node import Node
from live.test_lease import by_ssh
from paddock.backups.folder import FolderDestination
from paddock.backups.verified import check
from paddock.channels import Guest
from paddock.core import converge, version
from paddock.core.deployment import Deployment
from paddock.core.observe import Observation
from paddock.core.on_machine import OnMachine
from paddock.core.open import deployments
from paddock.core.resolve import Located
from paddock.demo import FACT
from paddock.kinds import load
from paddock.places.proxmox.api.client import Client
from paddock.plan.actions import AgentAction
from paddock.show.reporter import Reporter

OLD: Final = "0.18.2"
NEW: Final = "0.19.0"
_VMID: Final = 240
_DATABASE: Final = "/var/lib/paddock/hermes/home/.hermes/state.db"
_SCHEMA: Final = f"""python3 -c 'import sqlite3
print(*sqlite3.connect("{_DATABASE}").execute("select version from schema_version").fetchone())'"""
_RAN: Final = "cat /var/lib/paddock/hermes/.paddock/version"


@dataclass(frozen=True)
class Host:
    """An agent on a host over ssh, with a file of its own."""

    node: Node
    address: str
    file: Path

    def paddock(self, *words: str, fails: bool = False) -> Any:
        return self.node.paddock(*words, "-f", str(self.file), fails=fails)

    def ask(self, prompt: str) -> str:
        return str(self.paddock("ask", "hermes", prompt).stdout.strip())

    def shell(self, script: str) -> str:
        return self.node.shell(self.address, script)

    @property
    def schema(self) -> int:
        """The version of the agent's database."""
        return int(self.shell(_SCHEMA))

    @property
    def ran(self) -> str:
        """The version of the code that last ran on the state."""
        return self.shell(_RAN).strip()

    @property
    def version(self) -> str:
        """The version in the file."""
        return str(YAML(typ="safe").load(self.file)["agents"]["hermes"]["version"])

    def change(self, **keys: Any) -> None:
        """Change keys of the agent in the file; None removes one."""
        yaml = YAML()
        tree = yaml.load(self.file)
        for key, value in keys.items():
            tree["agents"]["hermes"].pop(key, None)
            if value is not None:
                tree["agents"]["hermes"][key] = value
        yaml.dump(tree, self.file)

    def break_it(self) -> None:
        """Write a version into the file that cannot answer."""
        locks = self.file.parent / "locks"
        locks.mkdir()
        shipped = resources.files("paddock.kinds.hermes") / f"locks/hermes-agent-{NEW}.txt"
        (locks / f"hermes-agent-{BROKEN}.txt").write_text(shipped.read_text())
        self.change(version=None, package=str(broken_wheel(self.file.parent)))

    def saved(self) -> list[dict[str, Any]]:
        """Return the manifests of the states that Paddock saved, the oldest first."""
        (folder,) = Path(self.node.stage.environment["XDG_STATE_HOME"]).glob("paddock/upgrades/*")
        return manifests(folder)

    @contextmanager
    def deployed(self, monkeypatch: pytest.MonkeyPatch, side: OnMachine) -> Iterator[Deployment]:
        """Open the agent in this process, with another machine side."""
        for name, value in self.node.stage.environment.items():
            monkeypatch.setenv(name, value)
        with deployments(load(self.file), [], Reporter()) as found:
            yield replace(found[0], machine_side=side)


@contextmanager
def host_with_old_version(node: Node, api: Client) -> Iterator[Host]:
    """Run a host with the agent in its old version, which has learned a fact."""
    where = container(node, api, _VMID)
    folder = node.stage.folder / "upgrade"
    folder.mkdir()
    tree = by_ssh(node, where)
    tree["agents"]["hermes"]["version"] = OLD
    YAML().dump(tree, folder / "paddock.yaml")
    # A folder of its own for states that upgrades save: other tests upgrade agents too.
    own = node.with_environment(XDG_STATE_HOME=str(folder / "state"))
    found = Host(own, where, folder / "paddock.yaml")
    try:
        found.paddock("up")
        assert FACT in found.ask(f"Remember: {FACT}")
        yield found
    finally:
        destroy(api, _VMID)
        shutil.rmtree(folder)


def manifests(folder: Path) -> list[dict[str, Any]]:
    """Read all backups in a folder completely, and return their manifests, the oldest first."""
    destination = FolderDestination(folder, ())
    found = []
    for backup in destination.backups():
        with destination.read(backup) as stream:
            found.append(check(stream))
    return found


class CutOff(BaseException):
    """The run ends here, as if it were killed: nothing in Paddock catches this."""


@dataclass
class Cutting(OnMachine):
    """Ends a run at a boundary between two steps on the machine: 0 is before the first, 1 after it, and so on."""

    at: int
    passed: int = field(default=0, init=False)

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        if self.passed == self.at:
            raise CutOff
        super().perform(agent, action, seen, reach)
        self.passed += 1
        if self.passed == self.at:
            raise CutOff


@dataclass
class Watching(OnMachine):
    """Calls something before each step on the machine."""

    before: Callable[[Located, AgentAction, Callable[[], Guest]], None]

    def perform(self, agent: Located, action: AgentAction, seen: Observation, reach: Callable[[], Guest]) -> None:
        self.before(agent, action, reach)
        super().perform(agent, action, seen, reach)


def cut_off(host: Host, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Run `up` in this process, and end it at a boundary between two steps."""
    with (
        host.deployed(monkeypatch, Cutting(at)) as agent,
        suppress(CutOff, version.RolledBack),
    ):
        converge.up(agent)
