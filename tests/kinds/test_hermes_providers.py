"""The model providers of Hermes: the extras that they bring, and the names and keys that `check` insists on."""

from __future__ import annotations

from typing import Any

import pytest

from kinds.model_keys import ROWS, agent_of
from paddock.kinds import agent_from
from paddock.kinds.hermes import checks, model_server, providers, settings
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.kinds.workload import Request


def agent(given: dict[str, Any], **keys: Any) -> HermesSpec:
    origin = {} if "package" in keys else {"version": "0.19.0"}
    found = agent_from({"kind": "hermes", "place": "home", "settings": given, **origin, **keys})
    assert isinstance(found, HermesSpec)
    return found


def model(provider: str, **more: Any) -> dict[str, Any]:
    return {"model": {"provider": provider, "default": "m", **more}}


def secret(*names: str) -> dict[str, Any]:
    return {"secrets": {name: {"env": name} for name in names}}


@pytest.mark.parametrize(
    ("given", "keys", "extras"),
    [
        (model("anthropic"), {}, {"anthropic"}),
        (model("Claude"), {}, {"anthropic"}),
        (model("minimax-cn"), {}, {"anthropic"}),
        (model("bedrock"), {}, {"anthropic", "bedrock"}),
        (model("vertex"), {}, {"vertex"}),
        (model("azure-foundry"), {}, set()),
        (model("azure-foundry", auth_mode="entra_id"), {}, {"azure-identity"}),
        (model("azure-foundry", api_mode="anthropic_messages"), {}, {"anthropic"}),
        (model("openrouter"), {}, set()),
        (model("deepseek"), {}, set()),
        (model("custom", base_url="http://192.0.2.1/v1"), {}, set()),
        (model("custom", base_url="http://192.0.2.1/anthropic"), {}, {"anthropic"}),
        (
            {**model("custom:a"), "providers": {"a": {"base_url": "http://x/v1", "transport": "anthropic_messages"}}},
            {},
            {"anthropic"},
        ),
        ({**model("openrouter"), "auxiliary": {"vision": {"provider": "anthropic"}}}, {}, {"anthropic"}),
        ({**model("openrouter"), "fallback_providers": [{"provider": "bedrock"}]}, {}, {"anthropic", "bedrock"}),
        ({**model("openrouter"), "tts": {"provider": "minimax"}}, {}, set()),  # speech, not a model
        # Without a provider Hermes takes the first one with a key.
        ({"model": "claude"}, secret("ANTHROPIC_API_KEY"), {"anthropic"}),
        ({"model": "claude"}, secret("ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"), set()),
        ({"model": "claude"}, {**secret("ANTHROPIC_API_KEY"), "gateway": "litellm"}, set()),
        (model("deepseek"), secret("ANTHROPIC_API_KEY"), set()),
    ],
)
def test_a_provider_brings_its_extras(given: dict[str, Any], keys: dict[str, Any], extras: set[str]) -> None:
    assert {*Hermes().extras(agent(given, **keys))} == extras


def mistakes(given: dict[str, Any], **keys: Any) -> list[str]:
    found = agent(given, **keys)
    return [f"{'.'.join(location)}: {sentence}" for location, sentence in settings.mistakes(found, found.settings)]


MISTRAL = "custom:mistral and providers: {mistral: {base_url: https://api.mistral.ai/v1, key_env: MISTRAL_API_KEY}}"
GROQ = "custom:groq and providers: {groq: {base_url: https://api.groq.com/openai/v1, key_env: GROQ_API_KEY}}"
OTHER = "custom:my-own and providers: {my-own: {base_url: https://…/v1, key_env: MY_OWN_API_KEY}}"


@pytest.mark.parametrize(
    ("given", "keys", "sentence"),
    [
        (model("openai"), {}, "model.provider: Hermes has no provider openai: write openai-api"),
        (model("mistral"), {}, f"model.provider: Hermes has no provider mistral: write {MISTRAL}"),
        (model("groq"), {}, f"model.provider: Hermes has no provider groq: write {GROQ}"),
        (model("my-own"), {}, f"model.provider: Hermes has no provider my-own: write {OTHER}"),
        (model("antropic"), {}, "model.provider: Hermes has no provider antropic: did you mean anthropic?"),
        (
            {**model("auto"), "fallback_providers": [{"provider": "openai", "model": "m"}]},
            {},
            "fallback_providers.0.provider: Hermes has no provider openai: write openai-api",
        ),
        (
            model("deepinfra"),
            {"version": "0.18.2", **secret("DEEPINFRA_API_KEY")},
            "model.provider: Hermes has this provider since version 0.19",
        ),
        (
            {**model("deepseek"), "providers": {"deepseek": {"base_url": "http://192.0.2.1/v1"}}},
            {},
            "model.provider: Hermes has a provider deepseek of its own and would not read providers.deepseek: "
            "rename yours",
        ),
        (
            model("anthropic", base_url="http://192.0.2.1/v1"),
            secret("ANTHROPIC_API_KEY"),
            "model.base_url: Hermes ignores this URL and would use Anthropic's: its path must end in /anthropic",
        ),
        (model("kimi"), {}, "model.provider: needs KIMI_API_KEY or KIMI_CODING_API_KEY under secrets"),
        (model("fireworks"), {}, "model.provider: needs FIREWORKS_API_KEY under secrets"),
        (model("azure-foundry"), {}, "model.provider: needs AZURE_FOUNDRY_API_KEY under secrets"),
    ],
)
def test_a_provider_that_would_fail_is_refused(given: dict[str, Any], keys: dict[str, Any], sentence: str) -> None:
    assert mistakes(given, **keys) == [sentence]


OWN = {"base_url": "http://192.0.2.1/v1"}


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (model("openai-api"), secret("OPENAI_API_KEY")),
        (model("anthropic"), secret("ANTHROPIC_TOKEN")),
        (model("anthropic", base_url="http://192.0.2.1/anthropic"), secret("ANTHROPIC_API_KEY")),
        (model("azure-foundry", auth_mode="entra_id"), {}),
        (model("nous"), {}),
        (model("lmstudio"), {}),
        (model("ollama", base_url="http://192.0.2.1/v1"), {}),
        (model("moa"), {}),
        ({**model("custom:own"), "providers": {"own": OWN}}, {}),
        ({**model("own"), "providers": {"own": OWN}}, {}),
        ({**model("openai"), "providers": {"openai": OWN}}, {}),
        ({**model("Our-Own"), "providers": {"our own": OWN}}, {}),
        ({**model("own"), "custom_providers": [{"name": "own", **OWN}]}, {}),
        ({**model("auto"), "auxiliary": {"vision": {"provider": "main"}}}, {}),
        (model("of-the-future"), {"version": "0.20.0"}),
        (model("of-the-future"), {"package": "hermes"}),
    ],
)
def test_a_provider_that_hermes_can_use_is_accepted(given: dict[str, Any], keys: dict[str, Any]) -> None:
    assert mistakes(given, **keys) == []


@pytest.mark.parametrize("row", ROWS, ids=[row["says"] for row in ROWS])
def test_check_knows_whether_a_model_has_a_name_and_a_key(row: dict[str, Any]) -> None:
    """tests/agent/test_models.py asks Hermes itself where it sends which key."""
    found = agent_of(row)
    told = [f"{'.'.join(location)}: {sentence}" for location, sentence in settings.mistakes(found, found.settings)]
    assert told == row.get("refused", [])
    if row.get("left_alone"):
        assert model_server.completed(found) == found.settings
    asked = [check.question for check in checks.model(found) if check.name == "model"]
    if "sends" in row and asked:
        [request] = asked
        assert isinstance(request, Request)
        # Which variables are in a file is not known here.
        assert request.bearer == row["sends"]["key"] or request.keyless
        assert request.keyless is ("in_a_file" in row)
        assert request.url == f"{row['sends']['url']}/models"


def test_no_name_belongs_to_two_providers() -> None:
    names = [name for key, each in providers.PROVIDERS.items() for name in (key, *each.aliases)]
    assert len(names) == len(set(names))
