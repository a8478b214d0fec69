"""The workload, probes and checks of kind litellm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from paddock.kinds.checks import Check
from paddock.kinds.litellm.recipe import Litellm, LitellmSpec
from paddock.kinds.workload import Answer, Paths

PATHS = Paths("/store", "/etc/paddock/door/current", "/state", "/state/home", "/state")
SETTINGS: dict[str, Any] = {
    "model_list": [
        {"model_name": "all/*", "litellm_params": {"model": "openai/*"}},
        {
            "model_name": "small",
            "litellm_params": {"model": "openai/gpt-5-mini", "api_key": "os.environ/OPENAI_API_KEY"},
        },
    ],
    "litellm_settings": {"drop_params": True},
}


def agent(**more: Any) -> LitellmSpec:
    given = {"kind": "litellm", "version": "1.106.2", "place": "x", "settings": SETTINGS, **more}
    return LitellmSpec.model_validate(given)


def models(spec: LitellmSpec) -> Check:
    return Litellm().checks(spec, "door", PATHS)[0]


def test_settings_become_the_configuration_of_the_proxy() -> None:
    workload = Litellm().workload(agent(), PATHS, "/tree")
    assert [file.path for file in workload.files] == ["litellm/config.yaml"]
    assert YAML(typ="safe").load(workload.files[0].content) == SETTINGS


def test_references_to_variables_are_written_in_the_form_of_litellm() -> None:
    settings = {"a": [{"api_key": "${KEY}"}], "b": "os.environ/KEY", "c": "not ${KEY} alone", "d": 1}
    written = Litellm().workload(agent(settings=settings), PATHS, "/tree").files[0].content
    assert YAML(typ="safe").load(written) == {**settings, "a": [{"api_key": "os.environ/KEY"}]}


def test_the_proxy_listens_on_loopback_unless_exposed() -> None:
    def host(spec: LitellmSpec) -> str:
        argv = Litellm().workload(spec, PATHS, "/tree").processes[0].argv
        return argv[list(argv).index("--host") + 1]

    assert host(agent()) == "127.0.0.1"
    assert host(agent(expose={"proxy": {}})) == "0.0.0.0"
    assert host(agent(expose={"proxy": {"address": "192.0.2.9"}})) == "192.0.2.9"


def test_the_code_of_the_proxy_has_a_lock() -> None:
    tree = Litellm().code(agent(), Path())
    assert "\nlitellm==1.106.2 \\\n" in tree.lock


def test_a_prompt_is_sent_to_the_first_model_of_the_list() -> None:
    probe = Litellm().probes(agent(), "Say ok.", "c").prompt
    assert probe
    assert probe.request.body == {"model": "small", "messages": [{"role": "user", "content": "Say ok."}]}
    assert probe.judge(Answer(200, {"choices": [{"message": {"content": "ok"}}]})).ok
    refused = probe.judge(Answer(401, {"error": {"message": "no such key"}}))
    assert (refused.ok, refused.evidence) == (False, "small answered 401: no such key")
    assert Litellm().probes(agent(settings={}), "Say ok.", "c").prompt is None


@pytest.mark.parametrize(
    ("answer", "ok", "evidence"),
    [
        (Answer(200, {"data": [{"id": "small"}, {"id": "other"}]}), True, "offers other, small"),
        (Answer(200, {"data": [{"id": "other"}]}), False, "lacks small"),
        (Answer(401, {"error": {"message": "no"}}), False, "/v1/models answered 401: no"),
        (Answer(502, "oops"), False, "/v1/models answered 502: oops"),
    ],
)
def test_the_proxy_must_offer_all_models_of_the_file(answer: Answer, ok: bool, evidence: str) -> None:
    verdict = models(agent()).judge(answer)
    assert (verdict.ok, verdict.evidence) == (ok, evidence)
