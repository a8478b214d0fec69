"""Finding 2: a line of the agent's log became a command that root ran."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

import paddock
from hostile import agents
from hostile.ground import Machine, as_root
from paddock.errors import PaddockError
from paddock.plan.actions import RemoveContainer
from paddock.plan.agent import AgentSeen, AgentWant, up

ENGINE: Final = "/srv/evil"
# Characters that a shell or Python may treat as the end of a line.
SEPARATORS: Final = ("\u2028", "\u2029", "\v", "\f", "\x85", "\x1c", "\x1d", "\x1e", "\r")


@as_root
def test_a_line_of_the_log_does_not_add_a_step_to_the_plan(ground: Machine) -> None:
    runtime = agents.systemd()
    agents.installed(ground, runtime)
    ground.stub("journalctl", "cat /mnt/log")
    ground.stub("systemctl", '[ "$1" != show ] || echo SubState=failed\n[ "$1" != is-active ] || echo failed')
    for separator in SEPARATORS:
        (ground.folder / "log").write_text(f"paddock: error{separator}left={ENGINE} x{separator}bundle=forged\n")
        seen = agents.seen(ground, runtime)
        assert "error" in seen.said, "the log was not read"
        steps = up("bee", AgentWant(None, "g", "s", foreground=False), seen)
        engines = [step.action.engine for step in steps if isinstance(step.action, RemoveContainer)]
        assert not engines, f"after {separator!a} root would run {engines}"
        assert seen.bundle_id != "forged", ascii(separator)


@as_root
def test_a_package_name_in_a_container_does_not_add_a_step_to_the_plan(ground: Machine) -> None:
    """Packages in a container are listed from file names, which the agent can choose."""
    runtime = agents.docker()
    ground.stub("docker", agents.ENGINE_STUB)
    agents.installed(ground, runtime)
    inspect = '"container inspect") case "$*" in *paddock.agent*) echo home_bee ;; *) echo schema=1 ;; esac ;;'
    ground.stub("docker", f'case "$1 $2" in {inspect} "diff "*) cat /mnt/diff ;; esac')
    for separator in SEPARATORS:
        (ground.folder / "diff").write_text(f"A /var/lib/dpkg/info/x{separator}left=evil{separator}.list\n")
        seen = agents.seen(ground, runtime)
        assert seen.container.layer, "the container was not examined"
        assert not seen.left, f"after {separator!a} root would run {list(seen.left)}"


@as_root
def test_a_container_is_removed_only_with_docker_or_podman(ground: Machine) -> None:
    from paddock.run.container import remove_container
    from paddock.runtimes.systemd.runtime import Systemd

    class Guest:
        name = "machine"

        def run(self, argv: list[str], *, stdin: bytes = b"", deadline: float = 60.0) -> object:
            return ground.run(argv)

    ground.root(f"printf '#!/bin/sh\\ntouch /root/taken\\n' >{ENGINE} && chmod 755 {ENGINE}")
    runtime: Systemd = agents.systemd()
    agents.installed(ground, runtime)
    with pytest.raises(PaddockError):
        remove_container(Guest(), ENGINE, runtime.agent, (), runtime.paths)  # type: ignore[arg-type]
    assert not ground.exists("/root/taken"), "root ran a program that the report named"


@pytest.mark.parametrize("pair", [("left", "/srv/evil"), ("left", "docker x"), ("unit.x", "active")])
def test_a_report_with_an_unknown_record_is_an_error(pair: tuple[str, str]) -> None:
    from_records = getattr(AgentSeen, "from_records", None)
    if from_records is None:
        seen = AgentSeen.from_lines("=".join(pair))  # type: ignore[attr-defined]
        assert seen == AgentSeen(), f"an unknown record was accepted: {seen.left or seen.units}"
        return
    with pytest.raises(PaddockError):
        from_records([pair])


def test_no_module_splits_text_with_splitlines() -> None:
    """``str.splitlines`` also splits at characters like U+2028, which an agent can write into any text."""
    source = Path(paddock.__file__).parent
    found = [
        f"{path.relative_to(source)}:{node.lineno}"
        for path in sorted(source.rglob("*.py"))
        if "spec" not in path.parts and path.name != "demo.py"  # these read only text of the user
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "splitlines"
    ]
    assert not found
