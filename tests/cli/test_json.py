"""The JSON output of verbs has the keys that docs/cli.md documents."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from paddock.plan.step import Risk
from paddock.show import journal

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
PROCESS = """\
project: home
places: {here: {host: {}}}
agents:
  hermes: {kind: hermes, version: 0.19.0, place: here, runtime: process, dashboard: true}
"""


def documented(verb: str) -> list[Any]:
    """Return the JSON examples that the page gives for the verb."""
    section = PAGE.split(f"`paddock {verb} --json`", 1)[1].split("`paddock ")[0]
    return [json.loads(text) for text in re.findall(r"```json\n(.*?)```", section, re.DOTALL)]


def shape(data: Any) -> Any:
    """Reduce data to its keys and types. A list is reduced to its first item."""
    if isinstance(data, dict):
        return {key: shape(value) for key, value in data.items()}
    return [shape(data[0])] if isinstance(data, list) and data and isinstance(data[0], dict) else type(data).__name__


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "paddock.yaml"
    path.write_text(PROCESS)
    return path


def test_check_json_has_the_documented_keys(paddock: Any, file: Path) -> None:
    right, wrong = documented("check")
    found = json.loads(paddock("check", "--json").out)
    assert found.keys() == right.keys()
    assert shape(found["agents"]["hermes"]) == shape(right["agents"]["hermes"])
    assert shape(json.loads(paddock("check", "--json", "--set", "agents.hermes.version=1").out)) == shape(wrong)


def test_plan_json_has_the_documented_keys(paddock: Any, file: Path) -> None:
    (example,) = documented("plan")
    (found,) = json.loads(paddock("plan", "--json", "--set", "agents.hermes.dashboard=false").out)
    assert found.keys() == example[0].keys()
    assert found["steps"][0].keys() == example[0]["steps"][0].keys()
    assert all(f"`{risk}`" in PAGE for risk in Risk)


def test_status_json_has_the_documented_keys(paddock: Any, file: Path) -> None:
    (example,) = documented("status")
    found = json.loads(paddock("status", "--json", "--set", "agents.hermes.dashboard=false").out)
    assert shape(found) == shape(example)


def test_doctor_json_has_the_documented_keys(paddock: Any, file: Path) -> None:
    (example,) = documented("doctor")
    (found,) = json.loads(paddock("doctor", "--json", "--set", "agents.hermes.dashboard=false").out)
    assert found.keys() == example[0].keys()
    assert found["findings"][0].keys() == example[0]["findings"][0].keys()


def test_verify_json_has_the_documented_keys(paddock: Any, file: Path) -> None:
    (example,) = documented("verify")
    said = paddock("verify", "--json", "--set", "agents.hermes.dashboard=false")
    (found,) = json.loads(said.out)
    assert said.code == 1, "nothing runs"
    assert shape(found) == shape(example[0] | {"lines": [{**example[0]["lines"][0]}]})


def test_timings_json_has_the_documented_keys(paddock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = documented("timings")
    run = journal.PastRun("up", datetime.now(UTC), "done", (journal.PastStep("hermes", "a", 1.0),))
    monkeypatch.setattr(journal, "past_runs", lambda last, files: [run])
    assert shape(json.loads(paddock("timings", "--json").out)) == shape(example)


def test_status_ends_with_1_for_an_agent_that_is_not_well(paddock: Any, file: Path) -> None:
    plain = ("status", "--set", "agents.hermes.dashboard=false")
    assert paddock(*plain).code == 0
    assert paddock(*plain, "--exit-code").code == 1


def test_check_status_and_down_work_without_the_secrets_of_agents(paddock: Any, file: Path) -> None:
    lacking = ("--set", "agents.hermes.secrets={A: {env: NO_SUCH_A}}", "--set", "agents.hermes.dashboard=false")
    for verb in ("check", "status", "down"):
        assert paddock(verb, *lacking).code == 0, verb
    (status,) = json.loads(paddock("status", "--json", *lacking).out)
    assert status["drift"] == "secrets are missing"
    for verb in ("plan", "up"):
        said = paddock(verb, *lacking)
        assert said.code == 2
        assert "A: environment variable NO_SUCH_A is not set" in said.err


def test_outputs_have_one_form_for_each_program_that_reads_them(paddock: Any, file: Path) -> None:
    def said(*words: str) -> str:
        return str(paddock("outputs", *words).out)

    values = json.loads(said("--json"))
    assert shape(values["hermes"]).keys() == documented("outputs")[0]["hermes"].keys()
    assert json.loads(said("--format", "json")) == values
    assert said("--format", "env") == said("--env")
    assert said("--format", "tf").startswith('locals {\n  paddock = {\n    "hermes" = {\n')
    assert said() == said("--format", "text")
