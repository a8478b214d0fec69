"""tests/seeds.md names only keys, verbs, tests and cases that exist."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

from cases import DATA
from paddock import cli
from paddock.file.models.whole import PlaceSpec, Spec
from paddock.file.sentences import keys, model_in
from paddock.kinds import KINDS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "tests" / "seeds.md").read_text()
CITED = re.compile(r"(tests/[\w/]+\.py)::(\w+)(?: \(([^)]*)\))?")
# The column has keys of the file, and a few words that are values or parts of Hermes' own configuration.
NO_KEYS = re.compile(
    r"\d+[GMs]?|providers(\..*)?|terminal\.(backend|cwd)|key_env|custom:NAME|eth0|/.*|--\w+|SLACK_APP_TOKEN|init|(age|sops|key|identity):"
)


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.splitlines() if line.startswith("|") and not line.startswith("|---")]
    found = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [cells for cells in found if cells[0] != "the requirement"]


ROWS = rows()


def test_the_page_has_a_section_for_each_seed() -> None:
    assert re.findall(r"^## (\d{3}):", PAGE, re.MULTILINE) == ["000", "001", "002", "003", "004"]
    assert len(ROWS) > 220


def test_no_cell_is_empty() -> None:
    for row in ROWS:
        assert len(row) == 4, row
        assert all(re.search(r"\w", cell) for cell in row), row


def test_a_row_cites_test_functions_or_says_why_there_is_none() -> None:
    for row in ROWS:
        assert CITED.search(row[3]) or row[3].startswith(("not needed: ", "not yet: ")), row
        assert len(re.findall(r"tests/[\w/]+\.py", row[3])) == len(CITED.findall(row[3])), f"cite functions: {row}"


@cache
def functions(path: str) -> frozenset[str]:
    """Return the names of the test functions of a file."""
    file = ROOT / path
    if not file.exists():
        return frozenset()
    return frozenset(node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef))


def nearest(name: str, known: Iterable[str]) -> str:
    return ", ".join(difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.3)) or "nothing similar"


def wrong_citations() -> Iterator[str]:
    cases = {path.stem for path in DATA.rglob("*.*")}
    for path, name, named in sorted(set(CITED.findall(PAGE))):
        if not (ROOT / path).exists():
            tests = {str(each.relative_to(ROOT)) for each in (ROOT / "tests").rglob("test_*.py")}
            yield f"{path} does not exist; nearest: {nearest(path, tests)}"
        elif name not in functions(path):
            yield f"{path}::{name} does not exist; nearest: {nearest(name, functions(path))}"
        for case in filter(None, named.split(", ")):
            if case not in cases:
                yield f"{path}::{name} ({case}) is no case; nearest: {nearest(case, cases)}"


def test_every_cited_function_and_case_exists() -> None:
    assert not (found := list(wrong_citations())), "\n".join(["", *found])


def test_every_verb_of_the_page_exists() -> None:
    cli.import_verbs()
    group: Any = typer.main.get_command(cli.app)
    known = set(group.commands) | {f"secrets {name}" for name in group.commands["secrets"].commands}
    named = {verb for row in ROWS for verb in re.findall(r"`([^`]+)`", row[2])}
    assert named <= known
    assert set(re.findall(r"`paddock ([a-z]+)", PAGE)) <= known
    assert all(re.search(r"`|^none$|^every verb$", row[2]) for row in ROWS)


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


def test_every_path_of_the_page_is_a_key_of_the_file() -> None:
    named = {path for row in ROWS for path in re.findall(r"`([^`]+)`", row[1])}
    assert {path for path in named if not NO_KEYS.fullmatch(path) and not exists(path)} == set()
    assert len([path for path in named if exists(path)]) > 80


def test_every_key_of_an_agent_is_on_the_page() -> None:
    named = {path for row in ROWS for path in re.findall(r"`([^`]+)`", row[1])}
    lacking = {key for model in KINDS.models.values() for key in keys(model)} - {path.split(".")[0] for path in named}
    # Keys of other kinds than Hermes, keys that say which agent it is, and those that no seed asks for.
    assert lacking <= {"kind", "place", "port", "command", "health", "network", "backup"}
