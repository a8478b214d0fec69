"""The page about the seeds is in step with the models, the verbs and the tests it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from cases import DATA
from paddock import cli
from paddock.recipes import KINDS
from paddock.spec.models import PlaceSpec, Spec
from paddock.spec.names import keys, model_in

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "seeds.md").read_text()
# The column is about keys, but a few words in it are values or parts of the agent's own configuration.
NO_KEYS = re.compile(
    r"\d+[GMs]?|providers(\..*)?|terminal\.(backend|cwd)|key_env|custom:NAME|eth0|/.*|--\w+|SLACK_APP_TOKEN|init|(age|sops|key):"
)
# Verbs that other rooms are still building.
COMING = {
    *("upgrade", "rollback", "snapshot", "backup", "restore", "move"),
}


def rows() -> list[list[str]]:
    found = []
    for line in PAGE.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if cells[0] != "the seed":
                found.append(cells)
    return found


ROWS = rows()
CASES = {"test_load": "spec", "test_planner": "plan/proxmox", "test_agent": "plan/agent"}


def test_there_is_a_row_for_everything() -> None:
    seeds = re.findall(r"^## (\d{3}):", PAGE, re.MULTILINE)
    assert seeds == ["000", "001", "002", "003", "004"]
    assert len(ROWS) > 220


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_no_cell_is_empty(row: list[str]) -> None:
    assert len(row) == 4
    assert all(re.search(r"\w", cell) for cell in row)


def exists(path: str) -> bool:
    models: list[Any] = [PlaceSpec] if path.split(".")[0] in PlaceSpec.model_fields else [Spec, *KINDS.models.values()]
    return any(_below(model, path.split(".")) for model in models)


def _below(model: Any, path: list[str]) -> bool:
    for part in path:
        if part == "NAME":
            continue
        if model is None or part not in (known := keys(model)):
            return False
        model = model_in(known[part].annotation)
    return True


def test_every_path_is_a_key_of_the_file() -> None:
    named = {path for row in ROWS for path in re.findall(r"`([^`]+)`", row[1])}
    assert {path for path in named if not NO_KEYS.fullmatch(path) and not exists(path)} == set()
    assert len([path for path in named if exists(path)]) > 80


def test_every_key_that_seeds_have_is_named() -> None:
    named = {path for row in ROWS for path in re.findall(r"`([^`]+)`", row[1])}
    lacking = {key for model in KINDS.models.values() for key in keys(model)} - {path.split(".")[0] for path in named}
    # Of other kinds than Hermes, or what says which agent it is.
    assert lacking <= {"kind", "place", "port", "command", "health"}


def test_every_verb_exists_or_is_coming() -> None:
    cli.import_verbs()
    group: Any = typer.main.get_command(cli.app)
    there = set(group.commands) | {f"secrets {name}" for name in group.commands["secrets"].commands}
    named = {verb for row in ROWS for verb in re.findall(r"`([^`]+)`", row[2])}
    assert named <= there | COMING


def test_every_test_and_case_exists() -> None:
    for row in ROWS:
        for path, cases in re.findall(r"((?:tests|docs)/[\w/.]+\.(?:py|md))(?: \(([^)]*)\))?", row[3]):
            assert (ROOT / path).exists(), path
            folder = CASES.get(Path(path).stem)
            for case in cases.split(", ") if folder and cases else ():
                assert (DATA / str(folder) / f"{case}.yaml").exists(), f"{path} ({case})"
