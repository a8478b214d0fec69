"""A harmless copy of Hermes has nothing that acts, and nothing of the agent's secrets but what its own model needs."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.base.errors import BadInput
from paddock.kinds import KINDS
from paddock.kinds.hermes import connectors
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.kinds.workload import Paths
from paddock.onboard.stream.layout import matcher

ACTING: dict[str, Any] = {
    "kind": "hermes",
    "version": "0.19.0",
    "place": "home",
    "settings": {
        "model": {"provider": "custom:lab", "default": "m"},
        "providers": {"lab": {"base_url": "http://10.0.0.5:4000/v1", "key_env": "LAB_KEY"}},
        "memory": {"memory_enabled": True},
        "platforms": {"webhook": {"enabled": True}},
        "hooks": {"pre_tool_call": [{"command": "touch /x"}]},
        "plugins": {"enabled": ["x"]},
        "cron": {"enabled": True},
    },
    "secrets": {"LAB_KEY": {"env": "A"}, "TELEGRAM_BOT_TOKEN": {"env": "B"}, "OTHER": {"env": "C"}},
    "environment": {"NTFY_TOPIC": "alerts", "WEBHOOK_ENABLED": "true"},
    "environment_files": [{"file": "./all.env"}],
    "connectors": {
        "telegram": {"allow": [1]},
        "matrix": {"allow": ["@a:b.example"], "homeserver": "https://b.example"},
        "ntfy": {"topic": "home"},
        "webhook": {"routes": {"git": {"secret_env": "OTHER"}}},
        "homeassistant": {"watch": ["light"]},
        "line": {"allow": [1]},
        "api_server": {"port": 8642},
    },
    "mcp_servers": {"files": {"command": "npx"}},
    "auth": {"from": {"file": "./auth.json"}},
    "dashboard": True,
    "managed": "pinned",
    "cli_on_path": True,
    "service": {"args": ["--accept-hooks"]},
}
PATHS = Paths.of(code="/opt/paddock", etc="/etc/paddock/x/current", state_link="/l", state="/var/lib/paddock/x")


def agent() -> HermesSpec:
    return HermesSpec.model_validate(ACTING)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mcp_servers", {}),
        ("auth", None),
        ("environment", {}),
        ("environment_files", []),
        ("secrets", {}),
        ("gateway", None),
        ("cli_on_path", False),
        ("managed", "strict"),
    ],
)
def test_a_copy_with_a_stand_in_has_no(key: str, value: Any) -> None:
    assert getattr(Hermes().harmless(agent(), "http://127.0.0.1:1/v1", {}), key) == value


def test_a_copy_keeps_only_settings_that_decide_what_its_model_sees() -> None:
    copy = Hermes().harmless(agent(), "http://127.0.0.1:1/v1", {"api_server": 9000})
    assert copy.settings.keys() == {"memory", "kanban", "model", "providers", "model_catalog"}
    assert copy.settings["kanban"] == {"dispatch_in_gateway": False}
    assert copy.ports() == {"api_server": 9000}
    assert connectors.names(copy) == ("api_server",)
    assert copy.service.args == []
    workload = Hermes().workload(copy, PATHS, "/opt/paddock/t")
    assert [(each.host, each.port) for each in workload.reaches] == [("127.0.0.1", 1)]
    assert workload.secret_files == ()


def test_a_copy_with_the_real_model_has_its_key_and_no_other_secret() -> None:
    copy = Hermes().harmless(agent(), None, {})
    assert copy.secrets.keys() == {"LAB_KEY"}
    assert copy.settings["model"] == {"provider": "custom:lab", "default": "m"}
    assert copy.environment_files == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": {"provider": "openrouter", "default": "m"}}, "the file has no URL of the agent's model"),
        ({"providers": {"lab": {"base_url": "http://10.0.0.5/v1", "key_env": "UNKNOWN"}}}, "UNKNOWN, the key of"),
    ],
)
def test_a_real_model_that_a_copy_could_not_use_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Hermes().harmless(agent().model_copy(update={"settings": settings}), None, {})


def test_a_copy_runs_the_same_code() -> None:
    recipe = Hermes()
    copy = recipe.harmless(agent(), None, {})
    assert sorted({*copy.extras, *recipe.extras(copy)}) == ["matrix", "mcp", "messaging"]


def test_an_agent_is_not_changed() -> None:
    original = agent()
    Hermes().harmless(original, None, {})
    assert original == agent()


@pytest.mark.parametrize("kind", ["litellm", "service"])
def test_other_kinds_cannot_be_made_harmless(kind: str) -> None:
    assert KINDS[kind].harmless(None, None, {}) is None


@pytest.mark.parametrize(
    ("path", "acts"),
    [
        (".hermes/cron/jobs.json", True),
        (".hermes/hooks/x/handler.py", True),
        (".hermes/plugins/x/__init__.py", True),
        (".hermes/auth.json", True),
        (".hermes/.anthropic_oauth.json", True),
        (".hermes/slack_tokens.json", True),
        (".hermes/mcp-tokens/x.json", True),
        (".hermes/config.yaml", True),
        (".hermes/.env", True),
        (".hermes/profiles/coder/cron/jobs.json", True),
        (".hermes/platforms/pairing/telegram-approved.json", True),
        (".hermes/memories/MEMORY.md", False),
        (".hermes/state.db", False),
        (".hermes/sessions/x.json", False),
        (".hermes/skills/x/SKILL.md", False),
        ("workspace/cron", False),
    ],
)
def test_what_acts_is_known(path: str, acts: bool) -> None:
    assert bool(matcher(list(Hermes().keeping(agent()).acting)).fullmatch(path)) is acts


def test_memory_that_is_switched_off_is_not_recalled() -> None:
    spec = agent().model_copy(update={"settings": {"memory": {"memory_enabled": False}}})
    assert Hermes().keeping(spec).recalled == (".hermes/memories/USER.md",)
