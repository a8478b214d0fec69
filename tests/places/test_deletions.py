"""No text leads a person to delete a memory: each text about deletion has a row with the proof that precedes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import paddock
from cases import DATA, read_case
from paddock.places.proxmox.node import numbers
from paddock.places.proxmox.node.observation import Hidden, Listed, LxcContainer, Pool, ProxmoxSeen, Unreachable
from paddock.plan.step import MachinePlan
from places.test_planner import inputs, plans

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = Path(paddock.__file__).parent
WORDS: Final = re.compile(r"\b(destroy|rm\b|delet|detach|unlock|forc(e|ing)|purg)", re.IGNORECASE)
COMMAND: Final = re.compile(r"\b(?:pct|qm|pvesm|ha-manager)\s+(?:unlock|destroy|free|rm|delete|remove)\s+(\S+)")
SAYS: Final = re.compile(r"\b(fail|refuse|echo|printf)\b.*[\"']")  # a line of a shell script that prints a sentence
KINDS: Final = ("advice", "steps", "statements", "internal")


@cache
def rows() -> dict[str, Any]:
    return read_case(DATA / "deletions.yaml")


def texts(module: Path) -> Iterator[str]:
    """Yield the texts of a module, with {} for what is put into them; no docstrings."""
    tree = ast.parse(module.read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (parts | told):
            yield node.value


def sentences(script: Path) -> Iterator[str]:
    """Yield the lines of a shell script that print something."""
    return (line.strip() for line in script.read_text().splitlines() if SAYS.search(line) and line.strip()[0] != "#")


def in_source() -> set[tuple[str, str]]:
    """Return each text about deletion, with its file."""
    found = {(path, text) for path in SOURCE.rglob("*.py") for text in texts(path)}
    found |= {(path, line) for path in SOURCE.rglob("*.sh") for line in sentences(path)}
    return {(path.relative_to(SOURCE).as_posix(), text) for path, text in found if WORDS.search(text)}


def listed(kind: str) -> list[tuple[str, str]]:
    entries = [(module, row) for module, told in rows()[kind].items() for row in told]
    return [(module, row["text"] if isinstance(row, dict) else row) for module, row in entries]


def test_every_text_about_deletion_has_a_row() -> None:
    known = [entry for kind in KINDS for entry in listed(kind)]
    assert sorted(in_source() - set(known)) == []
    assert sorted(set(known) - in_source()) == []
    assert len(known) == len(set(known))


def test_a_new_text_about_deletion_is_found(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text('"""Delete."""\nhint = f"run there: pct destroy {vmid}"\nother = "kept"\n')
    (tmp_path / "new.sh").write_text('# delete it\nrm -f "$1"\nfail 78 "rm -rf $1 helps"\n')
    found = [text for text in texts(tmp_path / "new.py") if WORDS.search(text)]
    assert found == ["run there: pct destroy {}"]
    assert [line for line in sentences(tmp_path / "new.sh") if WORDS.search(line)] == ['fail 78 "rm -rf $1 helps"']


def test_every_command_and_piece_of_advice_has_its_proof() -> None:
    for told in rows()["advice"].values():
        for row in told:
            path, _, name = row["test"].partition("::")
            name, _, case = name.partition(" ")
            text = (ROOT / path).read_text()
            assert not name or f"def {name}(" in text, row
            assert not case or list((DATA / "plan").rglob(f"{case.strip('()')}.yaml")), row
            assert len(row["proof"]) > 20
    assert all(len(row["proof"]) > 20 for told in rows()["steps"].values() for row in told)
    others = [text for kind in ("steps", "statements", "internal") for _, text in listed(kind)]
    assert [text for text in others if COMMAND.search(text)] == []


# A container that a crash left incomplete


REMAINDER: Final = LxcContainer(105, "stopped", {"lock": "create"})
SEEN: Final = ProxmoxSeen({105: REMAINDER}, frozenset({105}), node="pve", cluster={105: Listed("pve")})
MACHINE: Final = LxcContainer(101, "running", {"mp0": "local-lvm:vm-105-disk-1,mp=/var/lib/paddock/bee"})


def with_config(**config: Any) -> ProxmoxSeen:
    container = LxcContainer(105, "stopped", {**REMAINDER.config, **config})
    return replace(SEEN, containers={105: container})


DOUBTS: Final[dict[str, Callable[[], ProxmoxSeen]]] = {
    "it is complete": lambda: replace(SEEN, containers={105: LxcContainer(105, "stopped", {})}),
    "another lock": lambda: with_config(lock="backup"),
    "a migration": lambda: with_config(lock="migrate"),
    "the mark of a pet": lambda: with_config(description="paddock: v=2 role=pet"),
    "the mark of a newer Paddock": lambda: with_config(description="paddock: v=9 role=pet"),
    "a mark that cannot be read": lambda: with_config(description="paddock: what"),
    "a tag of Paddock": lambda: with_config(tags="ai;paddock"),
    "a volume": lambda: with_config(mp0="local-lvm:vm-105-disk-1,mp=/var/lib/paddock/home_bee"),
    "a mounted state": lambda: with_config(mp0="local-lvm:vm-100-disk-1,mp=/var/lib/paddock/bee"),
    "an unused volume": lambda: with_config(unused0="local-lvm:vm-105-disk-1"),
    "a root disk of another": lambda: with_config(rootfs="local-lvm:vm-100-disk-1"),
    "the pool of pets": lambda: replace(SEEN, containers={105: replace(REMAINDER, pool=Pool.STATE)}),
    "a user of its volume": lambda: replace(SEEN, containers={105: REMAINDER, 101: MACHINE}),
    "a user on another node": lambda: replace(SEEN, on_other_nodes={101: ("pve2", MACHINE)}),
    "a tag in the list of the cluster": lambda: replace(
        SEEN, cluster={105: Listed("pve", tags=frozenset({"paddock"}))}
    ),
    "another node in the list": lambda: replace(SEEN, cluster={105: Listed("pve2")}),
    "not in the list": lambda: replace(SEEN, cluster={}),
    "it could not be read": lambda: replace(SEEN, containers={}),
    "its node is offline": lambda: replace(
        SEEN, containers={}, hidden=Hidden(unreachable={105: Unreachable("pve2", "which is offline", Pool.ANY)})
    ),
    "it is on another node": lambda: replace(SEEN, containers={}, on_other_nodes={105: ("pve2", REMAINDER)}),
}


def test_a_remainder_is_named_with_its_commands_only_with_every_proof() -> None:
    assert numbers.hint(105, SEEN).endswith("pct unlock 105 && pct destroy 105")
    for doubt, seen in DOUBTS.items():
        assert not WORDS.search(numbers.hint(105, seen())), doubt


def test_snapshots_are_named_only_where_the_configuration_has_some() -> None:
    for said, parents in every_sentence():
        assert "snapshots" not in said or parents, said


@cache
def every_sentence() -> list[tuple[str, bool]]:
    """Return what every golden plan tells a person, and whether a container in it has snapshots."""
    found: list[tuple[str, bool]] = []
    for path in sorted((DATA / "plan/proxmox").glob("*.yaml")):
        case = read_case(path)
        given = inputs(path, case)
        parents = any("parent" in each.config for each in given.seen.containers.values())
        for plan in plans(given, case).values():
            found += [(said, parents) for said in told_by(plan)]
    return found


def told_by(plan: MachinePlan) -> Iterator[str]:
    for refusal in plan.refusals:
        yield f"{refusal.reason} {refusal.hint or ''}"
    for step in plan.steps:
        yield f"{step.title} {step.commands or ''}"
    yield from plan.notes


def test_no_golden_plan_prints_a_command_that_deletes() -> None:
    assert [said for said, _ in every_sentence() if COMMAND.search(said)] == []
