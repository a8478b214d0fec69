"""An upgrade keeps the memory, a broken version brings the old version and the old state back, and so does a person."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from live.broken import BROKEN, broken_wheel
from live.manual import container, destroy
from live.node import Node
from live.test_lease import api, by_ssh
from paddock.backups.folder import FolderDestination
from paddock.backups.verified import check
from paddock.demo import FACT, QUESTION
from paddock.places.proxmox.client import Client

__all__ = ["api"]
pytestmark = pytest.mark.live

OLD, NEW = "0.18.2", "0.19.0"
VMID = 230
DATABASE = "/var/lib/paddock/hermes/home/.hermes/state.db"
SCHEMA = f"""python3 -c 'import sqlite3
print(*sqlite3.connect("{DATABASE}").execute("select version from schema_version").fetchone())'"""


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
    def agent(self) -> dict[str, Any]:
        return dict(YAML(typ="safe").load(self.file)["agents"]["hermes"])

    def change(self, **keys: Any) -> None:
        yaml = YAML()
        tree = yaml.load(self.file)
        for key, value in keys.items():
            if value is None:
                del tree["agents"]["hermes"][key]
            else:
                tree["agents"]["hermes"][key] = value
        yaml.dump(tree, self.file)

    def saved(self) -> list[dict[str, Any]]:
        """Return the manifests of the states that Paddock saved, the oldest first."""
        (folder,) = Path(self.node.stage.environment["XDG_STATE_HOME"]).glob("paddock/upgrades/*")
        destination = FolderDestination(folder, ())
        manifests = []
        for backup in destination.backups():
            with destination.read(backup) as stream:
                manifests.append(check(stream))
        return manifests


@pytest.fixture
def host(node: Node, api: Client) -> Iterator[Host]:
    """A host with the agent in its old version, which has learned a fact."""
    where = container(node, api, VMID)
    folder = node.stage.folder / "upgrade"
    folder.mkdir()
    tree = by_ssh(node, where)
    tree["agents"]["hermes"]["version"] = OLD
    YAML().dump(tree, folder / "paddock.yaml")
    found = Host(node, where, folder / "paddock.yaml")
    try:
        found.paddock("up")
        assert found.ask(f"Remember: {FACT}")
        yield found
    finally:
        destroy(api, VMID)
        shutil.rmtree(folder)
        shutil.rmtree(Path(node.stage.environment["XDG_STATE_HOME"]) / "paddock/upgrades", ignore_errors=True)


def test_an_upgrade_keeps_the_memory_and_a_rollback_brings_the_state_from_before_back(host: Host) -> None:
    schema = int(host.shell(SCHEMA))
    planned = host.paddock("upgrade", "hermes", "--dry-run").stdout
    assert f"{OLD} becomes {NEW}" in planned
    assert host.agent["version"] == OLD
    host.paddock("upgrade", "hermes")
    assert host.agent["version"] == NEW
    assert int(host.shell(SCHEMA)) > schema
    assert host.ask(QUESTION) == FACT
    assert host.paddock("plan").stdout == "hermes: nothing to do\n"

    host.ask("Remember: The door code is 99.")
    told = host.paddock("rollback", "hermes", "--dry-run")
    assert " messages" in told.stderr
    told = host.paddock("rollback", "hermes", "--yes")
    assert f"runs with {OLD}" in told.stdout
    assert host.agent["version"] == OLD
    assert int(host.shell(SCHEMA)) == schema
    assert host.ask(QUESTION) == FACT
    assert "99" not in host.shell("cat /var/lib/paddock/hermes/home/.hermes/memories/MEMORY.md")
    assert host.paddock("plan").stdout == "hermes: nothing to do\n"
    before, after = host.saved()
    assert (before["version"], after["version"]) == (OLD, NEW)


def test_a_broken_version_brings_the_old_version_and_state_back(host: Host) -> None:
    schema = int(host.shell(SCHEMA))
    locks = host.file.parent / "locks"
    locks.mkdir()
    shipped = resources.files("paddock.recipes.hermes") / f"locks/hermes-agent-{NEW}.txt"
    (locks / f"hermes-agent-{BROKEN}.txt").write_text(shipped.read_text())
    wheel = broken_wheel(host.file.parent)
    host.change(version=None, package=str(wheel))
    told = host.paddock("up", fails=True).stderr
    print(told)
    assert f"hermes did not work with {BROKEN} from a package" in told
    assert int(host.shell(SCHEMA)) == schema
    host.change(package=None, version=OLD)
    assert host.paddock("plan").stdout == "hermes: nothing to do\n"
    assert host.ask(QUESTION) == FACT
