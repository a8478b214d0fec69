"""The commands of the README and of docs/operations.md, run in order against a node with real containers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyrage import x25519
from ruamel.yaml import YAML

from levels import slow_proof
from live.installs import install, start_unit
from live.manual import api_client, container
from live.node import Node
from live.node_root import root, run_lines
from live.upgraded import OLD
from paddock.demo import FACT, VERSION
from shell_doc import ROOT, Shell, command_on_path, run_stage

pytestmark = pytest.mark.live

OPERATIONS = ROOT / "docs/operations.md"


@contextmanager
def desk(node: Node, **keys: Any) -> Iterator[Shell]:
    """Yield a shell of a person who has a file for the node. The keys are of the agent in it."""
    folder = node.stage.folder / "desk"
    folder.mkdir()
    try:
        for name in ("id_ed25519", "id_ed25519.pub"):
            shutil.copy(node.stage.folder / name, folder)
        tree = node.file()
        tree["agents"]["hermes"] |= keys
        YAML().dump(tree, folder / "paddock.yaml")
        identity = x25519.Identity.generate()
        config = folder / ".config/paddock"
        config.mkdir(parents=True)
        (config / "age.key").touch(mode=0o600)
        (config / "age.key").write_text(f"{identity}\n")
        (config / "recipient").write_text(str(identity.to_public()))
        own = {"XDG_CONFIG_HOME": str(folder / ".config"), **command_on_path(node.stage.folder)}
        yield Shell(folder, {**node.stage.environment, **own}, ((f"{folder}/", ""),))
    finally:
        shutil.rmtree(folder)


def with_backups(shell: Shell) -> None:
    """Add the `backup` of the page to the file, with a recipient whose identity is at hand."""
    (part,) = re.findall(r"^```yaml\n(agents:\n.*?)^```", OPERATIONS.read_text(), re.DOTALL | re.MULTILINE)
    backup = YAML(typ="safe").load(part)["agents"]["hermes"]["backup"]
    backup["recipients"] = [(shell.folder / ".config/paddock/recipient").read_text()]
    yaml = YAML()
    tree = yaml.load(shell.folder / "paddock.yaml")
    tree["agents"]["hermes"]["backup"] = backup
    yaml.dump(tree, shell.folder / "paddock.yaml")
    tree["agents"]["hermes"]["backup"] = {"to": {"proxmox": {"storage": "local"}}}
    yaml.dump(tree, shell.folder / "on-storage.yaml")


def let_proxmox_save(node: Node, shell: Shell) -> None:
    """Run the lines of `doctor` that let the token back pets up to a storage."""
    said = shell.run("paddock doctor -f on-storage.yaml")[1]
    run_lines(node, [line.strip() for line in said if line.strip().startswith("pveum")])


def forget(node: Node) -> None:
    """Remove the agent of other tests with its state. The next test that needs it creates it again."""
    node.paddock("down")
    command = [sys.executable, "-m", "paddock", "forget", "hermes", "--name", "hermes"]
    # It fails if there is no state.
    subprocess.run(command, cwd=node.stage.folder, env=dict(node.stage.environment), check=False, timeout=120)


@slow_proof
def test_the_commands_of_the_readme_work(node: Node) -> None:
    forget(node)
    with desk(node) as shell:
        run_stage("readme", shell)


def test_the_first_recipes_of_operations_print_what_the_page_says(agent: Node) -> None:
    agent.ask(f"Remember: {FACT}")
    with desk(agent) as shell:
        with_backups(shell)
        shown = (*shell.shown, (VERSION, OLD))  # the page begins with the version before
        run_stage("operations", replace(shell, shown=shown), only=("Back up 1", "See what it has learned 1"))


@slow_proof
def test_the_recipes_of_operations_print_what_the_page_says(new_node: Node) -> None:
    with desk(new_node, version=OLD) as shell:
        assert shell.run("paddock up")[0] == 0
        assert FACT in "".join(shell.run(f"paddock ask hermes 'Remember: {FACT}'")[1])
        with_backups(shell)
        let_proxmox_save(new_node, shell)
        run_stage("operations", shell)
        laptop_is_lost(new_node, shell)


def laptop_is_lost(node: Node, shell: Shell) -> None:
    """Run the recipe for a new computer: only backups, identity, file and ssh key are left."""
    assert shell.run("paddock backup hermes")[0] == 0  # the newest one is of the version that was rolled back
    forget(node)
    new = shell.folder / "new"
    new.mkdir()
    for name in ("backups", "id_ed25519", "id_ed25519.pub", "paddock.yaml"):
        shutil.move(shell.folder / name, new)
    (shell.folder / ".config/paddock/age.key").rename(new / "age.key")
    environment = {**shell.environment, "XDG_STATE_HOME": str(new / ".state")}
    run_stage("lost", Shell(new, environment, ((f"{new}/", ""),)))


@slow_proof
def test_the_recipe_for_an_existing_install_prints_what_the_page_says(new_node: Node, tmp_path: Path) -> None:
    api = api_client(new_node)
    where = container(new_node, api, 118, memory=3072, rootfs="local-lvm:10")
    token = new_node.stage.environment["PVE_TOKEN"].partition("=")[0]
    accounts = ("--users", token.partition("!")[0], "--tokens", token)
    assert root(new_node, "pveum", "acl", "modify", "/vms/118", *accounts, "--roles", "PVEAuditor").returncode == 0
    old = install(new_node, where, "/root/.hermes", tmp_path)
    old.learn()
    start_unit(old)
    key = old.shell("ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    api.close()
    with desk(new_node) as shell:
        run_stage("import", Shell(shell.folder, {**shell.environment, "FINGERPRINT": key}, shell.shown))
