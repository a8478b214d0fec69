"""The Python package of an agent, and its lock."""

from __future__ import annotations

import re
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from paddock.base.errors import BadInput
from paddock.kinds import agent_from
from paddock.kinds.code import CodeTree
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.runtimes.code.tree import locked_without

LOCKS = resources.files("paddock.kinds.hermes") / "locks"
MATRIX = {"homeserver": "https://matrix.example.org", "allow": ["@ann:example.org"]}
PROJECT = '[project]\nname = "hermes_agent"\nversion = "0.20.0"\n'


def agent(**keys: Any) -> HermesSpec:
    origin = {} if "package" in keys else {"version": "0.19.0"}
    found = agent_from({"kind": "hermes", "place": "home", **origin, **keys})
    assert isinstance(found, HermesSpec)
    return found


def code(folder: Path, **keys: Any) -> CodeTree:
    return Hermes().code(agent(**keys), folder)


@pytest.mark.parametrize(
    ("keys", "lock"),
    [
        ({}, "hermes-agent-0.19.0.txt"),
        ({"extras": ["messaging", "mcp"]}, "hermes-agent-0.19.0+mcp+messaging.txt"),
        ({"connectors": {"telegram": {"allow": [1]}}}, "hermes-agent-0.19.0+messaging.txt"),
        ({"mcp_servers": {"a": {"command": "true"}}, "extras": ["mcp"]}, "hermes-agent-0.19.0+mcp.txt"),
        ({"version": "0.18.2", "extras": ["messaging", "mcp"]}, "hermes-agent-0.18.2+mcp+messaging.txt"),
        ({"connectors": {"matrix": MATRIX}}, "hermes-agent-0.19.0+matrix.txt"),
        ({"connectors": {"matrix": MATRIX, "slack": {"allow": [1]}}}, "hermes-agent-0.19.0+matrix+mcp+messaging.txt"),
        ({"connectors": {"ntfy": {"topic": "home"}, "irc": {"allow": ["ann"]}}}, "hermes-agent-0.19.0.txt"),
    ],
)
def test_the_extras_select_the_lock(keys: dict[str, Any], lock: str, tmp_path: Path) -> None:
    assert code(tmp_path, **keys).lock == (LOCKS / lock).read_text()


EXTRAS_OF_KEYS = ("anthropic", "azure-identity", "bedrock", "matrix", "mcp", "messaging", "vertex")


@pytest.mark.parametrize("version", ["0.18.2", "0.19.0"])
def test_the_two_newest_versions_have_a_lock_for_all_extras_that_other_keys_need(tmp_path: Path, version: str) -> None:
    for number in range(len(EXTRAS_OF_KEYS) + 1):
        for extras in combinations(EXTRAS_OF_KEYS, number):
            tree = code(tmp_path, version=version, extras=list(extras))
            assert f"\nhermes-agent=={version} " in tree.lock
            assert list(tree.distribution.extras) == sorted(extras)


@pytest.mark.parametrize(
    ("keys", "lock"),
    [
        ({"extras": ["anthropic"]}, "+anthropic"),
        ({"extras": ["anthropic", "mcp"]}, "+anthropic+mcp+messaging"),
        ({"extras": ["vertex"]}, "+anthropic+azure-identity+bedrock+matrix+mcp+messaging+vertex"),
    ],
)
def test_the_smallest_shipped_lock_with_all_extras_is_used(keys: dict[str, Any], lock: str, tmp_path: Path) -> None:
    assert code(tmp_path, **keys).lock == (LOCKS / f"hermes-agent-0.19.0{lock}.txt").read_text()


def test_a_lock_beside_the_file_needs_exactly_the_extras(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks/hermes-agent-0.19.0+anthropic+mcp.txt").write_text("own\n")
    assert code(tmp_path, extras=["anthropic", "mcp"]).lock == "own\n"
    assert code(tmp_path, extras=["mcp"]).lock == (LOCKS / "hermes-agent-0.19.0+mcp.txt").read_text()


def test_the_error_about_a_missing_lock_says_how_to_create_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no lock locks/hermes-agent-0\.19\.0\+voice\.txt") as caught:
        code(tmp_path, extras=["voice"])
    extras = "anthropic, azure-identity, bedrock, matrix, mcp, messaging, vertex"
    assert caught.value.hint == (
        f"`paddock template lock AGENT` creates it; Paddock ships locks for 0.19.0 with the extras {extras}"
    )
    with pytest.raises(BadInput) as caught:
        code(tmp_path, version="9.9.9")
    assert str(caught.value.hint).endswith("Paddock ships locks for 0.18.2, 0.19.0")


def test_packages_of_the_file_need_a_lock_of_their_own(tmp_path: Path) -> None:
    keys = {"python_packages": ["b==2", "a"], "extras": ["mcp"]}
    with pytest.raises(BadInput, match=r"no lock locks/hermes-agent-0\.19\.0\+mcp\+with-[0-9a-f]{8}\.txt"):
        code(tmp_path, **keys)
    wanted = Hermes().distribution(agent(**keys), tmp_path)
    assert wanted == Hermes().distribution(agent(**keys | {"python_packages": ["a", "b==2"]}), tmp_path)
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / wanted.lock).write_text("a==1 --hash=sha256:00\n")
    assert code(tmp_path, **keys).lock == "a==1 --hash=sha256:00\n"
    assert Hermes().versions(agent(**keys), tmp_path) == ["0.19.0"]


@pytest.mark.parametrize(
    ("keys", "folders"),
    [({}, ("skills", "optional-skills")), ({"skills": "none"}, ())],
)
def test_the_skills_of_the_sources_are_part_of_the_code(
    keys: dict[str, Any], folders: tuple[str, ...], tmp_path: Path
) -> None:
    assert code(tmp_path, **keys).folders == folders
    assert (code(tmp_path, **keys).id == code(tmp_path).id) is bool(folders)


def test_a_wheel_of_ones_own_has_no_skills(tmp_path: Path) -> None:
    (tmp_path / "hermes_agent-0.19.0-py3-none-any.whl").write_bytes(b"one")
    assert code(tmp_path, package="hermes_agent-0.19.0-py3-none-any.whl").folders == ()


def test_a_lock_beside_the_file_overrides_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks/hermes-agent-0.19.0.txt").write_text("hermes-agent==0.19.0 --hash=sha256:00\n")
    assert code(tmp_path).lock.endswith("sha256:00\n")


@pytest.mark.parametrize("lock", [each for each in LOCKS.iterdir() if each.name.endswith(".txt")], ids=str)
def test_no_lock_has_a_package_that_must_be_compiled(lock: Any) -> None:
    assert "python-olm" not in lock.read_text()


@pytest.mark.parametrize("lock", [each for each in LOCKS.iterdir() if each.name.endswith(".txt")], ids=str)
def test_every_package_of_a_shipped_lock_has_a_hash(lock: Any) -> None:
    entries = re.split(r"\n(?=\S)", lock.read_text().partition("\n")[2].rstrip())
    assert len(entries) > 50
    assert all(re.match(r"[a-z0-9.-]+==\S+( ; .*)? \\\n +--hash=sha256:", entry) for entry in entries)


def test_a_wheel_has_the_version_in_its_name_and_an_id_of_its_content(tmp_path: Path) -> None:
    wheel = tmp_path / "hermes_agent-0.19.0-py3-none-any.whl"
    wheel.write_bytes(b"one")
    one = code(tmp_path, package=wheel.name)
    assert one.distribution.local
    assert one.distribution.local.path == wheel
    wheel.write_bytes(b"two")
    assert len({one.id, code(tmp_path, package=wheel.name).id, code(tmp_path).id}) == 3


def test_a_source_folder_has_the_version_of_its_project_and_an_id_of_its_sources(tmp_path: Path) -> None:
    folder = tmp_path / "hermes"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks/hermes-agent-0.20.0.txt").write_text("")
    first = code(tmp_path, package="hermes").id
    (folder / ".git").mkdir()
    (folder / ".git/HEAD").write_text("x")
    assert code(tmp_path, package="hermes").id == first
    (folder / "agent.py").write_text("x")
    assert code(tmp_path, package="hermes").id != first


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("litellm-1.108.0-py3-none-any.whl", "", "is litellm, and an agent of kind hermes runs hermes-agent"),
        ("hermes-agent-0.19.0.tar.gz", "", "is not a wheel"),
        ("sources/pyproject.toml", "[project]\nname = 'hermes-agent'", "does not have the project's 'version'"),
        ("sources/pyproject.toml", "[", "pyproject.toml: "),
        ("sources/setup.py", "", "cannot read .*pyproject.toml: No such file"),
    ],
)
def test_a_package_that_is_not_usable_for_the_kind_is_refused(
    tmp_path: Path, name: str, content: str, sentence: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(BadInput, match=sentence):
        code(tmp_path, package=name.partition("/")[0])


def test_a_package_is_removed_from_a_lock_with_its_hashes() -> None:
    one, two, three = (
        "# a lock\nidna==3 \\\n    --hash=1\n",
        "hermes-agent==1 \\\n    --hash=2 \\\n    --hash=3\n",
        "x==1\n",
    )
    assert locked_without(one + two + three, "hermes-agent") == one + three
