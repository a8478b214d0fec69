"""The documentation names only commands, keys, files and tests that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel
from ruamel.yaml import YAML

from paddock import cli
from paddock.spec.load import parse
from paddock.spec.models import KINDS, PlaceSpec, Spec
from paddock.spec.names import keys, model_in

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.md")])
USER_PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def named(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.stem)


def whole_files() -> list[Any]:
    found = [(page, text) for page in PAGES for text in blocks(page, "yaml") if "places:" in text]
    return [pytest.param(text, id=f"{page.stem}-{number}") for number, (page, text) in enumerate(found)]


@pytest.mark.parametrize("text", whole_files())
def test_sample_files_pass_check(text: str) -> None:
    assert parse(text, "paddock.yaml").agents


def test_the_readme_has_sample_files() -> None:
    assert sum("places:" in text for text in blocks(ROOT / "README.md", "yaml")) == 2


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in keys(model).values():
        if inner := model_in(field.annotation):
            yield from models(inner)


PARTS: list[type[BaseModel]] = [Spec, PlaceSpec, *KINDS.values()]
MODELS = [each for part in PARTS for each in models(part)]


def known(part: Any, model: type[BaseModel] | None) -> bool:
    """Whether every key of a part of a file is a key of the model."""
    if model is None or not isinstance(part, dict):
        return True
    fields = keys(model)
    return all(key in fields and known(value, model_in(fields[key].annotation)) for key, value in part.items())


@named(PAGES)
def test_parts_of_files_in_texts_have_keys_that_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for inline in re.findall(r"`([^`]+)`", text):
        if re.match(r"(?!paddock)[a-z_]+: [^ ]", inline):  # `paddock: …` is a mark
            part = YAML(typ="safe").load(inline)
            assert any(known(part, model) for model in MODELS), inline


def command_line() -> Any:
    cli.import_verbs()
    return typer.main.get_command(cli.app)


@named(USER_PAGES)
def test_commands_in_shell_samples_are_accepted_by_the_command_line(page: Path) -> None:
    for line in "".join(blocks(page, "sh")).splitlines():
        command = re.split(r"[|<>]|\s#\s", line)[0].strip()
        if command.startswith("paddock "):
            accept(command_line(), shlex.split(command)[1:])


def accept(group: Any, arguments: list[str]) -> None:
    """Parse the arguments as the command line does, without running the verb."""
    name, command, rest = group.resolve_command(group.make_context("paddock", list(arguments)), arguments)
    if hasattr(command, "commands"):
        accept(command, rest)
    else:
        command.make_context(name, rest)


@named(USER_PAGES)
def test_verbs_in_texts_exist(page: Path) -> None:
    group = command_line()
    for verb, word in re.findall(r"`paddock ([a-z]+)(?: ([a-z]+))?", page.read_text()):
        assert verb in group.commands, verb
        inner = getattr(group.commands[verb], "commands", None)
        assert inner is None or not word or word in inner, f"{verb} {word}"


@named(PAGES)
def test_relative_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@named(USER_PAGES)
def test_paths_of_the_source_exist(page: Path) -> None:
    for path in re.findall(r"`((?:tests|src|docs|examples|scripts)/[\w./-]+)`", page.read_text()):
        assert (ROOT / path).exists(), path
    if page.name == "security.md":
        for name in re.findall(r"`(test_\w+\.py)`", page.read_text()):
            assert (ROOT / "tests" / "hostile" / name).exists(), name
