"""The documentation names only commands, keys, files and tests that exist."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cli.conftest import Paddock
from cli.verbs_page import verbs_page
from commandline import command_line
from paddock import demo

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# The changelog may name what an earlier version had.
PAGES_OF_TODAY = [page for page in PAGES if page.name != "CHANGELOG.md"]


def each(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.stem)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


SAMPLES = [(page.stem, text) for page in PAGES for text in blocks(page, "yaml") if "places:" in text]


@pytest.mark.parametrize("text", [text for _, text in SAMPLES], ids=[name for name, _ in SAMPLES])
def test_a_sample_file_passes_check(paddock: Paddock, tmp_path: Path, text: str) -> None:
    file = tmp_path / "paddock.yaml"
    file.write_text(text)
    said = paddock("check", "-f", str(file))
    assert (said.code, said.err) == (0, "")


def test_the_readme_has_a_sample_for_each_kind_of_place() -> None:
    samples = [YAML(typ="safe").load(text) for name, text in SAMPLES if name == "README"]
    assert {kind for sample in samples for place in sample["places"].values() for kind in place} == {"proxmox", "host"}


def is_known(part: Any, model: Any, models: dict[str, Any]) -> bool:
    """Whether every key of a part of a file is a key of the model, a part of the JSON Schema."""
    if not isinstance(part, dict) or "properties" not in model:
        return True
    return all(
        key in model["properties"] and is_value_known(value, model["properties"][key], models)
        for key, value in part.items()
    )


def is_value_known(value: Any, schema: Any, models: dict[str, Any]) -> bool:
    inner = [models[name] for name in re.findall(r"#/\$defs/(\w+)", json.dumps(schema))]
    return not inner or any(is_known(value, model, models) for model in inner)


def test_parts_of_files_in_texts_have_keys_that_exist(paddock: Paddock) -> None:
    whole = json.loads(paddock("schema").out)
    models = whole["$defs"]
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for inline in re.findall(r"`([^`]+)`", text):
            if re.match(r"(?!paddock)[a-z_]+: [^ ]", inline):  # `paddock: …` is a mark
                part = YAML(typ="safe").load(inline)
                parts = [model for model in (whole, *models.values()) if "properties" in model]
                assert any(is_known(part, model, models) for model in parts), inline


def test_the_page_of_verbs_is_what_the_command_line_says() -> None:
    page, wanted = ROOT / "docs/verbs.md", verbs_page(command_line())
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        page.write_text(wanted)
    assert page.read_text() == wanted, "PADDOCK_GOLDEN=write rewrites it"


@each(PAGES_OF_TODAY)
def test_the_command_line_accepts_the_commands_of_shell_samples(page: Path) -> None:
    for line in "".join(blocks(page, "sh")).splitlines():
        command = re.split(r"[|<>]|\s#\s", line)[0].strip()
        if command.startswith("paddock "):
            accept(command_line(), shlex.split(command)[1:])


def test_the_command_line_accepts_what_the_demo_offers_to_try() -> None:
    for commands in (demo._AFTERWARDS, demo._WITH_CONTAINER, demo._WITH_PROCESSES):
        assert len(commands) == 3
        for command in commands:
            program, *words = shlex.split(command.partition(">")[0])
            if program == "paddock":
                accept(command_line(), words)
            else:
                assert (ROOT / program).is_file()
                assert words[0] in (ROOT / program).read_text()


def accept(group: Any, arguments: list[str]) -> None:
    """Parse the arguments as the command line does, without running the verb."""
    name, command, rest = group.resolve_command(group.make_context("paddock", list(arguments)), arguments)
    if hasattr(command, "commands"):
        accept(command, rest)
    else:
        command.make_context(name, rest)


@each(PAGES_OF_TODAY)
def test_verbs_in_texts_exist(page: Path) -> None:
    group = command_line()
    for verb, word in re.findall(r"`paddock ([a-z]+)(?: ([a-z]+))?", page.read_text()):
        assert verb in group.commands, verb
        inner = getattr(group.commands[verb], "commands", None)
        assert inner is None or not word or word in inner, f"{verb} {word}"


@each(PAGES)
def test_relative_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@each(PAGES_OF_TODAY)
def test_paths_of_the_repository_exist(page: Path) -> None:
    for path in re.findall(r"`((?:tests|src|docs|examples|scripts)/[\w./-]+)`", page.read_text()):
        assert (ROOT / path).exists(), path


FILES = [f"/{path.relative_to(ROOT)}" for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.*")]


@each([page for page in PAGES_OF_TODAY if page.parent == ROOT / "docs"])
def test_modules_scripts_and_tests_in_texts_exist(page: Path) -> None:
    for name in re.findall(r"`([\w/]+\.(?:py|sh))`", page.read_text()):
        assert any(file.endswith(f"/{name}") for file in FILES), name
