"""Several files, --set and defaults: which value wins, and where mistakes are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import DATA
from paddock.base.errors import BadInput
from paddock.kinds import load, parse
from paddock.kinds.hermes.spec import HermesSpec
from paddock.kinds.service import ServiceSpec

GOOD = DATA / "good.yaml"


def overlay(tmp_path: Path, text: str, name: str = "over.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def hermes(*more: Path, sets: tuple[str, ...] = ()) -> HermesSpec:
    agent = load(GOOD, *more, sets=sets).spec.agents["hermes"]
    assert isinstance(agent, HermesSpec)
    return agent


def mistakes(*more: Path, sets: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(BadInput) as caught:
        load(GOOD, *more, sets=sets)
    return caught.value.message.splitlines()


def test_later_files_override_earlier_ones_key_by_key(tmp_path: Path) -> None:
    one = overlay(tmp_path, "agents: {hermes: {machine: {memory: 8G}, settings: {model: {default: other}}}}", "1.yaml")
    two = overlay(tmp_path, "agents: {hermes: {machine: {cores: 4, memory: 16G}}}", "2.yaml")
    agent = hermes(one, two)
    assert (agent.machine.vmid, agent.machine.cores, str(agent.machine.memory)) == (105, 4, "16G")
    assert agent.settings["model"] == {"provider": "custom:litellm", "default": "other"}


def test_a_later_list_replaces_the_whole_list(tmp_path: Path) -> None:
    one = overlay(tmp_path, "agents: {hermes: {packages: [git, curl]}}", "1.yaml")
    two = overlay(tmp_path, "agents: {hermes: {packages: [jq]}}", "2.yaml")
    assert hermes(one, two).packages == ["jq"]


def test_a_mistake_is_reported_in_the_file_that_contains_it(tmp_path: Path) -> None:
    over = overlay(tmp_path, "agents:\n  hermes:\n    machine: {memory: lots}\n    colour: red\n")
    assert mistakes(over) == [
        f"{over}:3:15: agents.hermes.machine.memory: a size needs a number and a unit, like 512M or 10G",
        f"{over}:4:5: agents.hermes.colour: unknown key 'colour'",
    ]


def test_a_contradiction_between_files_is_reported_in_the_later_file(tmp_path: Path) -> None:
    over = overlay(tmp_path, "agents:\n  hermes:\n    place: nowhere\n")
    assert mistakes(over) == [
        f"{over}:3:5: agents.hermes.place: there is no place 'nowhere' in this file (there is home, here, box)"
    ]


def test_an_error_about_broken_yaml_names_the_file(tmp_path: Path) -> None:
    over = overlay(tmp_path, "agents: {")
    assert mistakes(over)[0].startswith(f"{over}:1:10: not valid YAML")


def test_relative_paths_start_at_the_folder_of_the_first_file(tmp_path: Path) -> None:
    base = tmp_path / "a" / "paddock.yaml"
    base.parent.mkdir()
    base.write_text(GOOD.read_text())
    (base.parent / "SOUL.md").write_text("Be kind.")
    over = overlay(tmp_path, "agents: {hermes: {documents: {SOUL.md: {file: SOUL.md}}}}")
    loaded = load(base, over)
    assert loaded.folder == base.parent


@pytest.mark.parametrize(
    ("assignment", "cores"),
    [
        ("agents.hermes.machine.cores=4", 4),
        ('agents."hermes".machine.cores= 4', 4),
        ("agents.hermes.machine={cores: 3}", 3),
    ],
)
def test_set_replaces_one_value(assignment: str, cores: int) -> None:
    machine = hermes(sets=(assignment,)).machine
    assert (machine.cores, machine.vmid) == (cores, 105)


def test_the_last_set_wins_and_its_value_is_yaml() -> None:
    agent = hermes(
        sets=("agents.hermes.packages=[git]", "agents.hermes.packages=[jq, curl]", "agents.hermes.enabled=false")
    )
    assert (agent.packages, agent.enabled) == (["jq", "curl"], False)


def test_a_part_of_a_path_with_dots_is_quoted_in_set() -> None:
    agent = hermes(sets=('agents.hermes.documents."SOUL.md"=Be brief.',))
    assert agent.documents["SOUL.md"].text == "Be brief."


def test_set_changes_an_item_of_a_list(tmp_path: Path) -> None:
    over = overlay(tmp_path, "agents: {hermes: {mounts: [{host: /a, path: /b}, {host: /c, path: /d}]}}")
    agent = hermes(over, sets=("agents.hermes.mounts.1.path=/e",))
    assert [(mount.host, mount.path) for mount in agent.mounts] == [("/a", "/b"), ("/c", "/e")]
    assert mistakes(over, sets=("agents.hermes.mounts.2.path=/e",)) == [
        "--set agents.hermes.mounts.2.path: agents.hermes.mounts is a list of 2 items, numbered from 0"
    ]
    assert mistakes(over, sets=("agents.hermes.mounts.0.path=e", "agents.hermes.mounts.1.host=/")) == [
        "--set: agents.hermes.mounts.0.path: must be an absolute path without ..",
        "--set: agents.hermes.mounts.1.host: / itself cannot be mounted",
    ]


@pytest.mark.parametrize("assignment", ["", "agents", "=1", ".=1", "a..b=1", 'a."b=1', "agents.hermes"])
def test_set_without_a_path_or_a_value_is_an_error(assignment: str) -> None:
    assert mistakes(sets=(assignment,)) == ["--set takes path=value, like --set agents.NAME.machine.memory=8G"]


def test_an_error_about_a_secret_on_the_command_line_does_not_repeat_the_secret() -> None:
    told = mistakes(
        sets=("agents.hermes.secrets.A=canary-value-18", "agents.hermes.environment.X_TOKEN=canary-value-18")
    )
    assert told == [
        "--set: agents.hermes.environment.X_TOKEN: is named like a secret;"
        " move it to secrets: {X_TOKEN: {env: X_TOKEN}}",
        "--set: agents.hermes.secrets.A: do not write a secret into the file; name its source,"
        " like {env: NAME} or {file: PATH}",
    ]


DEFAULTS = """\
project: home
places:
  home: {proxmox: {url: https://192.0.2.10:8006, node: pve, token: {env: T}, storage: s, base: "l:b", ssh: {key: k}}}
  here: {host: {}}
defaults:
  place: home
  version: 0.19.0
  machine: {memory: 1G, cores: 1}
  container: {memory: 1G}
  state: {size: 1G}
  environment: {TZ: Europe/Rome}
  packages: [git]
agents:
  one: {kind: hermes, machine: {cores: 2}}
  two: {kind: service, command: [sleep, inf], packages: [], environment: {A: b}}
  three: {kind: hermes, place: here, runtime: process}
  four: {kind: hermes, runtime: docker, container: {base: "debian:12"}}
"""


def test_defaults_apply_only_to_agents_that_have_the_key() -> None:
    agents = parse(DEFAULTS, "paddock.yaml").agents
    one, two, three = agents["one"], agents["two"], agents["three"]
    assert str(agents["four"].container.memory) == "1G"
    assert (one.machine.cores, str(one.machine.memory), one.packages) == (2, "1G", ["git"])
    assert isinstance(two, ServiceSpec)
    assert (two.place, two.packages, two.environment) == ("home", [], {"TZ": "Europe/Rome", "A": "b"})
    assert three.place == "here"
    assert not three.machine.model_fields_set | three.container.model_fields_set | three.state.model_fields_set


def test_a_mistake_in_the_defaults_is_reported_once_at_the_defaults() -> None:
    with pytest.raises(BadInput) as caught:
        parse(DEFAULTS.replace("memory: 1G, cores: 1", "memory: lots, coers: 1"), "paddock.yaml")
    assert caught.value.message.splitlines() == [
        "paddock.yaml:8:13: defaults.machine.memory: a size needs a number and a unit, like 512M or 10G",
        "paddock.yaml:8:27: defaults.machine.coers: unknown key 'coers'; did you mean 'cores'?",
    ]


def test_an_unknown_key_in_the_defaults_is_an_error() -> None:
    with pytest.raises(BadInput) as caught:
        parse(DEFAULTS.replace("packages: [git]", "pakcages: [git]"), "paddock.yaml")
    assert (
        caught.value.message == "paddock.yaml:12:3: defaults.pakcages: unknown key 'pakcages'; did you mean 'packages'?"
    )
