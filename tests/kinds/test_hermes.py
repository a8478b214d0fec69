"""Hermes' answers are judged; the bodies were recorded from a real Hermes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from paddock.file.agent_id import AgentId
from paddock.file.models.agent import ExposeSpec
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.kinds.workload import Answer, Probe
from paddock.runtimes.systemd.runtime import Systemd

AGENT = HermesSpec.model_validate({"kind": "hermes", "version": "0.19.0", "place": "home"})
PROBES = Hermes().probes(AGENT, "Say ok.", "c1")
HEALTH, PROMPT = cast(Probe, PROBES.health), cast(Probe, PROBES.prompt)


def completion(content: str, finish: str, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "hermes-agent", "choices": [choice], **more}


FAILED = {"completed": False, "partial": False, "failed": True, "error": "HTTP 401", "error_code": "agent_error"}


@pytest.mark.parametrize(
    ("answer", "ok", "evidence"),
    [
        (Answer(200, completion("ok: Say ok.", "stop")), True, "ok: Say ok."),
        (
            Answer(200, completion("HTTP 401: Incorrect API key provided.", "error", hermes=FAILED)),
            False,
            "its model failed: HTTP 401: Inc",
        ),
        (Answer(200, completion("half an answ", "length")), False, "half an answ"),
        (Answer(200, completion("  ", "stop")), False, "  "),
        (Answer(500, {"error": {"message": "Unknown provider"}}), False, "the API answered 500: {'error'"),
        (Answer(502, "Bad Gateway"), False, "the API answered 502: Bad Gateway"),
        (Answer(200, {"choices": []}), False, "the API answered 200"),
    ],
)
def test_a_prompt_counts_as_answered_only_if_the_model_answered(answer: Answer, ok: bool, evidence: str) -> None:
    verdict = PROMPT.judge(answer)
    assert verdict.ok is ok
    assert verdict.evidence.startswith(evidence)


@pytest.mark.parametrize(
    ("answer", "ok"),
    [
        (Answer(200, {"status": "ok", "platform": "hermes-agent", "version": "0.19.0"}), True),
        (Answer(404, {"error": "not found"}), False),
        (Answer(200, "<html>something else listens here</html>"), False),
    ],
)
def test_hermes_is_healthy_if_its_api_says_so(answer: Answer, ok: bool) -> None:
    assert HEALTH.judge(answer).ok is ok


def test_each_conversation_has_a_session_id() -> None:
    assert PROMPT.request.headers == {"X-Hermes-Session-Id": "c1"}


def test_settings_of_the_file_override_those_of_the_recipe() -> None:
    agent = AGENT.model_copy(update={"settings": {"security": {"tirith_enabled": True}, "x": 1}})
    workload = Hermes().workload(agent, _paths(), "/code")
    config = next(file.content for file in workload.files if file.path == "hermes/config.yaml")
    assert "tirith_enabled: true" in config
    assert "allow_lazy_installs: false" in config
    assert "x: 1" in config


def test_hermes_listens_on_loopback_unless_exposed() -> None:
    exposed = AGENT.model_copy(update={"expose": {"api_server": ExposeSpec(address="192.0.2.5")}})
    everywhere = AGENT.model_copy(update={"expose": {"api_server": ExposeSpec()}})
    found = []
    for agent in (AGENT, exposed, everywhere):
        gateway = Hermes().workload(agent, _paths(), "/code").processes[0]
        asked = cast(Probe, Hermes().probes(agent, "", "").health).request.url
        found.append((gateway.environment["API_SERVER_HOST"], asked))
    assert found == [
        ("127.0.0.1", "http://127.0.0.1:8642/health"),
        ("192.0.2.5", "http://192.0.2.5:8642/health"),
        ("0.0.0.0", "http://127.0.0.1:8642/health"),
    ]


def test_a_browser_adds_its_driver_and_the_permission_for_its_sandbox() -> None:
    agent = AGENT.model_copy(update={"browser": True})
    assert "chromium" in Hermes().packages(agent)
    assert [tool.name for tool in Hermes().code(agent, Path()).tools] == ["agent-browser"]
    runtime = Systemd(AgentId("home", "hermes"), agent)
    workload = Hermes().workload(agent, runtime.paths, "/code")
    unit = runtime.bundle(workload, "t1", mounted=False).files["units/paddock-home_hermes.gateway.service"].content
    assert "RestrictNamespaces=user pid net\n" in unit
    assert "SystemCallFilter=@system-service chroot\n" in unit
    assert 'exec /code/bin/agent-browser "$@"' in next(
        f.content for f in workload.files if f.path == "bin/agent-browser"
    )


def _paths() -> Any:
    return Systemd(AgentId("home", "hermes"), AGENT).paths
