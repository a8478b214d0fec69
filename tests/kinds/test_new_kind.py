"""A new kind needs its own module and one entry in the list of kinds; the module of this one is beside the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from file_reference import reference
from kinds.echo import Echo, EchoSpec
from paddock.base.errors import BadInput
from paddock.file import check
from paddock.file.agent_id import AgentId
from paddock.file.kinds import Kinds
from paddock.file.load import Loaded, load, parse
from paddock.file.referenced import inlined
from paddock.file.schema import json_schema
from paddock.kinds import KINDS
from paddock.kinds.workload import Recipe
from paddock.runtimes.open import runtime_for

WITH_ECHO: Kinds[Recipe[Any]] = Kinds(*KINDS.values(), Echo())

GOOD = """\
project: home
places: {here: {host: {}}}
defaults: {voice: soft, version: "1.0"}
agents:
  hill:
    kind: echo
    place: here
    port: 7001
    config_file: echo.yaml
    expose: {web: {address: 192.0.2.5}}
    user: {uid: 10001}
  hermes: {kind: hermes, version: 0.19.0, place: here, gateway: hill, settings: {model: m}}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("echo.yaml").write_text("volume: 11\n")
    Path("locks").mkdir()
    Path("locks/echo-agent-1.0.txt").write_text("echo-agent==1.0 --hash=sha256:00\n")


def loaded(text: str = GOOD) -> Loaded:
    Path("paddock.yaml").write_text(text)
    return load(Path("paddock.yaml"), kinds=WITH_ECHO)


def mistakes(text: str) -> list[str]:
    with pytest.raises(BadInput) as caught:
        loaded(text)
    return caught.value.message.splitlines()


def test_a_file_with_an_agent_of_a_new_kind_is_loaded_as_the_kinds_model() -> None:
    hill = loaded().spec.agents["hill"]
    assert isinstance(hill, EchoSpec)
    assert (hill.port, hill.voice, hill.user.name) == (7001, "soft", "echo")
    assert check.summary(loaded()) == "paddock.yaml: 2 agents in 1 place"


def test_an_agent_of_a_new_kind_is_rendered_to_a_bundle() -> None:
    file = loaded()
    agent = inlined(file.spec.agents["hill"], file.folder)
    recipe = file.kinds[agent.kind]
    tree = recipe.code(agent, file.folder)
    assert tree is not None
    assert (tree.distribution.requirement, tree.lock) == ("echo-agent", "echo-agent==1.0 --hash=sha256:00\n")
    runtime = runtime_for(AgentId("home", "hill"), agent, file.folder, None)
    workload = recipe.workload(agent, runtime.inside, f"{runtime.paths.code}/{tree.id}")
    files = runtime.bundle(workload, tree.id, mounted=False).files
    assert files["echo.txt"].content == "soft 11\n"
    units = "".join(file.content for path, file in files.items() if path.endswith(".service"))
    assert f"/{tree.id}/bin/echo-agent" in units
    assert "192.0.2.5" in units


def test_mistakes_of_a_new_kind_are_reported_with_their_lines() -> None:
    Path("echo.yaml").write_text("volume: loud\npassword: hunter2\n")
    assert mistakes(GOOD.replace("port: 7001", "port: seven")) == [
        "paddock.yaml:8:5: agents.hill.port: must be a whole number, not a text",
        "paddock.yaml:12:56: agents.hermes.gateway: 'hill' is not an agent of kind litellm or echo in this file"
        " (there is none)",
    ]
    assert mistakes(GOOD) == [
        "paddock.yaml:9:5: agents.hill.config_file: echo.yaml:1:1: volume must be a number",
        "paddock.yaml:9:5: agents.hill.config_file: echo.yaml:2:1: password is named like a secret;"
        " name it under secrets: and write ${NAME} here",
    ]


def test_rules_between_agents_apply_to_a_new_kind() -> None:
    Path("echo.yaml").write_text("{}")
    second = "  dale: {kind: echo, place: here, port: 7001, user: {name: dale, uid: 10002}}\n"
    assert mistakes(GOOD + second) == [
        "paddock.yaml:13:10: agents.dale.kind: there is an echo already: hill",
        "paddock.yaml:13:35: agents.dale.port: port 7001 is used by hill on the same machine",
    ]


def test_an_unknown_kind_is_reported_with_the_names_of_all_kinds() -> None:
    assert mistakes(GOOD.replace("kind: echo", "kind: ecko"))[0] == (
        "paddock.yaml:6:5: agents.hill.kind: must be one of hermes, litellm, service, echo; did you mean 'echo'?"
    )


def test_the_schema_and_the_reference_describe_a_new_kind() -> None:
    schema = json_schema(WITH_ECHO)
    assert schema["properties"]["defaults"]["properties"]["voice"]["description"] == "loud or soft"
    assert schema["$defs"]["EchoSpec"]["properties"]["kind"]["const"] == "echo"
    assert "## agents.NAME, kind echo" in reference(WITH_ECHO)


def test_the_kinds_that_paddock_ships_are_unchanged_by_a_new_one() -> None:
    assert list(KINDS) == ["hermes", "litellm", "service"]
    with pytest.raises(BadInput, match=r"must be one of hermes, litellm, service$"):
        parse(GOOD, "paddock.yaml", KINDS)
