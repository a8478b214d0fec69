"""The examples are valid, show every key, and differ only in place and runtime."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paddock.file.models.whole import AgentSpec
from paddock.kinds import load, parse
from paddock.kinds.hermes.spec import HermesSpec

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
TRANSLATED = sorted((FOLDER / "nixos-module").glob("*.yaml"))
ABOUT_WHERE = {"place", "runtime", "machine", "state", "mounts", "container"}
# Keys that exclude other keys of the examples, need more agents, or do not go with an image.
NOT_FOR_EVERYONE = {"package", "config_file", "gateway", "programs"}
# Keys that an image with the agent's code decides, and the version, which it may decide.
DECIDED_BY_IMAGE = {"version", "packages", *HermesSpec.decided_by_image}


def with_all_options(path: Path) -> str:
    """Return the example with all its options enabled. Some of them go with open connections only, or with root."""
    text = path.read_text().replace("#: ", "").replace("egress: internet", "egress: open")
    return text.replace("scope: user ", "scope: system ")


def not_in(agent: AgentSpec) -> set[str]:
    """The keys that an example of this runtime does not show."""
    return DECIDED_BY_IMAGE if agent.image_brings_code else {"browser"} if agent.runtime.is_engine else set()


def what(agent: AgentSpec, without: set[str]) -> dict[str, object]:
    return agent.model_dump(exclude=ABOUT_WHERE | without)


def test_there_is_an_example_for_each_place_and_type_of_runtime() -> None:
    assert [path.stem for path in EXAMPLES] == ["container", "docker-lxc", "native", "pet-and-cattle"]
    shapes = set()
    for path in EXAMPLES:
        spec = load(path).spec
        agent = spec.agents["hermes"]
        shapes.add((spec.places[agent.place].proxmox is not None, agent.runtime.is_engine))
    assert len(shapes) == 4


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_valid_as_it_is_and_with_all_options_enabled(path: Path) -> None:
    assert load(path).spec.agents.keys() == {"hermes"}
    assert parse(with_all_options(path), path.name).agents.keys() == {"hermes"}


@pytest.mark.parametrize("switch", [Path.read_text, with_all_options], ids=["as-it-is", "all-on"])
def test_the_agents_of_the_examples_differ_only_in_place_and_runtime(switch: object) -> None:
    assert callable(switch)
    first, *others = (parse(switch(path), path.name).agents["hermes"] for path in EXAMPLES)
    assert len(others) == 3
    for other in others:
        without = not_in(first) | not_in(other)
        assert what(other, without) == what(first, without)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_shows_every_key_of_hermes(path: Path) -> None:
    agent = parse(with_all_options(path), path.name).agents["hermes"]
    expected = HermesSpec.model_fields.keys() - ABOUT_WHERE - NOT_FOR_EVERYONE
    expected -= not_in(agent)
    assert expected <= agent.model_fields_set


def test_the_examples_together_show_every_key_of_machine_state_and_container() -> None:
    for part in ("machine", "state", "container"):
        specs = [getattr(parse(with_all_options(path), path.name).agents["hermes"], part) for path in EXAMPLES]
        shown = set().union(*(spec.model_fields_set for spec in specs))
        text = "\n".join(path.read_text() for path in EXAMPLES)
        lacking = {key for key in type(specs[0]).model_fields if not re.search(rf"\b{key}:", text)}
        assert lacking <= {"volume"}, part  # only for pets that Paddock did not create
        assert shown


@pytest.mark.parametrize("path", TRANSLATED, ids=lambda path: path.stem)
def test_a_translated_example_is_valid(path: Path) -> None:
    assert parse(path.read_text(), path.name).agents.keys() == {"hermes"}


def test_lines_of_examples_are_at_most_120_characters_long() -> None:
    for path in (*EXAMPLES, *TRANSLATED):
        assert all(len(line) <= 120 for line in path.read_text().splitlines()), path
