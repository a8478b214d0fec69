"""A new place needs its folder and one line in the table of places; the folder of this one is beside the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

import paddock.kinds
from file_reference import reference
from paddock.base.errors import BadInput
from paddock.cli.check import check
from paddock.core.converge import plan_up
from paddock.core.observe import observe
from paddock.core.open import deployments
from paddock.core.resolve import locate, resolve
from paddock.file.kinds import Kinds
from paddock.file.load import Loaded, load
from paddock.file.models.place import PLACES
from paddock.file.schema import json_schema
from paddock.kinds import KINDS
from paddock.show.reporter import Reporter
from places.incus.place import Incus

GOOD: Mapping[str, Any] = {"remote": "https://incus.test:8443"}


@pytest.fixture(autouse=True)
def _one_line_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLACES, "incus", "places.incus")
    # The models of files are built once, and were perhaps built without that line.
    monkeypatch.setattr(paddock.kinds, "KINDS", Kinds(*KINDS.values()))
    monkeypatch.chdir(tmp_path)


def loaded(**box: Any) -> Loaded:
    agents = {"web": {"kind": "service", "place": "box", "command": ["/bin/true"], "machine": {"memory": "1G"}}}
    Path("paddock.yaml").write_text(json.dumps({"project": "home", "places": {"box": box}, "agents": agents}))
    return load(Path("paddock.yaml"), kinds=paddock.kinds.KINDS)


@pytest.mark.parametrize("as_json", [False, True])
def test_check_accepts_a_file_with_a_new_place(capsys: pytest.CaptureFixture[str], *, as_json: bool) -> None:
    loaded(incus=GOOD)
    if as_json:
        with pytest.raises(typer.Exit):
            check([Path("paddock.yaml")], as_json=True)
        found = json.loads(capsys.readouterr().out)
        assert (found["ok"], found["places"]) == (True, {"box": "incus"})
    else:
        check([Path("paddock.yaml")])
        assert capsys.readouterr().out == "paddock.yaml: 1 agent in 1 place\n"


@pytest.mark.parametrize(
    ("box", "told"),
    [
        ({"incus": {"remote": 7}}, "places.box.incus.remote: "),
        ({"incus": {**GOOD, "colour": "red"}}, "places.box.incus.colour: "),
        ({"incus": GOOD, "host": {}}, "a place is either proxmox: or host: or incus:"),
        ({}, "a place is either proxmox: or host: or incus:"),
    ],
)
def test_check_finds_mistakes_in_a_new_place(box: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as caught:
        loaded(**box)
    assert told in caught.value.message


def test_an_agent_in_a_new_place_is_opened_and_planned() -> None:
    with deployments(loaded(incus=GOOD), [], Reporter()) as [agent]:
        assert isinstance(agent.place, Incus)
        assert agent.place.traits.identity == GOOD["remote"]
        located = locate(agent)
        plan = plan_up(located, resolve(located).want(), observe(located))
    assert [step.id for step in plan.steps] == ["agent.configure", "agent.answer"]


def test_the_schema_and_the_page_have_the_keys_of_a_new_place() -> None:
    kinds = paddock.kinds.KINDS
    assert "remote" in json_schema(kinds)["$defs"]["Keys"]["properties"]
    assert "URL of its API" in reference(kinds)
