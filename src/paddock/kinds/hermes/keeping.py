"""Which files of Hermes' state a backup keeps, and a copy of an agent that cannot act."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from paddock.base.errors import BadInput
from paddock.file.models.agent import SupervisionSpec
from paddock.kinds.endpoints import ModelServer, named_in
from paddock.kinds.files import merged
from paddock.kinds.hermes import mcp, model_server
from paddock.kinds.hermes.spec import HOME, ApiServerSpec, ConnectorsSpec, DashboardSpec, HermesSpec, Managed, section
from paddock.kinds.keeping import Keeping, Messages, Traces

# Usual directories of Hermes' data, beside homes of accounts. The messaging process (`hermes gateway`) always writes
# gateway_state.json, also when its data is in another directory or in a container's volume.
TRACES: Final = Traces(
    directories=("/opt/hermes", "/opt/data", "/var/lib/hermes", "/srv/hermes", "/data/hermes"),
    names=(HOME, "gateway_state.json"),
    becomes=HOME,
    known_by=("config.yaml", ".env", "state.db"),  # as `hermes import` recognises a backup
    variable="HERMES_HOME",
    programs=("hermes",),
    environment_file=".env",
    rebuilt=(f"{HOME}/hermes-agent",),  # the code, where Hermes' own installer puts it
    wrappers=("hermes",),
    beside="_external",
)

# Files that start something, let others talk to the agent, or are credentials. Hermes reads settings from .env,
# config.yaml and gateway.json, and each profile is another home.
_ACTING: Final = (
    *("cron", "hooks", "plugins", "scripts", "profiles", "active_profile", "processes.json", ".restart_*", ".update_*"),
    *("auth.json", "mcp-tokens", "mcp-installs", "*oauth*.json", "*token*.json", "honcho.json", "hindsight"),
    *("byterover", "pairing", "platforms", "whatsapp", "webhook_subscriptions.json"),
    *(".env", ".op.env", "config.yaml", "gateway.json"),
)
_KEEPING: Final = Keeping(
    rebuilt=(
        *(f"{HOME}/{name}" for name in ("logs", "*_cache", "sandboxes", "bin", "checkpoints")),
        *(f"{HOME}/{name}" for name in ("gateway.pid", "gateway.lock", "**/*.lock")),
        *(".npm", ".cache/uv"),  # packages that npx and uvx have fetched
    ),
    texts=tuple(f"{HOME}/{name}" for name in ("SOUL.md", "memories/*.md", "skills/**/SKILL.md")),
    messages=Messages(f"{HOME}/state.db", "SELECT count(*) FROM messages WHERE timestamp > ?"),
    required=(f"{HOME}/state.db",),
    lasting=(f"{HOME}/*.db",),
    acting=tuple(f"{HOME}/{name}" for name in _ACTING),
)


def keeping(agent: HermesSpec) -> Keeping:
    """Return which files of the agent's state a backup keeps."""
    return replace(_KEEPING, recalled=tuple(f"{HOME}/memories/{name}" for name in recalled(agent)))


_MODEL: Final = "stand-in"
_GATEWAY_KEY: Final = ModelServer("", "").key

# All other settings are dropped: a setting can start a connector, a hook, a plugin or a schedule. These decide what
# the agent puts before its model, and which model it uses.
_KEPT: Final = ("memory", "context_file_max_chars")
_MODEL_KEYS: Final = ("model", "providers", "custom_providers")

# The gateway would otherwise work on the tasks of its boards.
_PINNED: Final[dict[str, Any]] = {"kanban": {"dispatch_in_gateway": False}}


def recalled(agent: HermesSpec) -> Iterator[str]:
    """Yield the memory files that the agent puts before its model."""
    memory = section(agent.settings, "memory")
    if memory.get("memory_enabled", True):
        yield "MEMORY.md"
    if memory.get("user_profile_enabled", True):
        yield "USER.md"


def copy(agent: HermesSpec, extras: Sequence[str], model: str | None, ports: Mapping[str, int]) -> HermesSpec:
    """Return the copy. ``extras`` are those of the agent's code, so that the copy runs the same code.

    ``model`` is the URL of a stand-in for the model; with None the copy uses the agent's own model and its key.
    """
    if model is None:
        _check_own_model(agent)
    api = agent.connectors.api_server
    settings = {key: agent.settings[key] for key in _KEPT if key in agent.settings} | _PINNED
    own = _of_its_model(agent)
    return agent.model_copy(
        update={
            "settings": merged(settings, own if model is None else _standing_in(model)),
            "config_file": None,
            "secrets": {name: agent.secrets[name] for name in _keys(own) if name in agent.secrets}
            if model is None
            else {},
            "environment": {},
            "environment_files": [],
            "extras": sorted({*agent.extras, *extras}),
            "programs": mcp.wanted_programs(agent),
            "gateway": agent.gateway if model is None else None,
            "connectors": ConnectorsSpec(
                api_server=ApiServerSpec(port=ports.get("api_server", api.port), model_name=api.model_name)
            ),
            "mcp_servers": {},
            "auth": None,
            "dashboard": DashboardSpec(enabled=False),
            "managed": Managed.STRICT,
            "cli_on_path": False,
            "service": SupervisionSpec(),
        }
    )


def _check_own_model(agent: HermesSpec) -> None:
    """Refuse a model that a copy could not use: its address is not known, or its key is not a secret of the file."""
    own = _of_its_model(agent)
    if agent.gateway is None and not named_in(own):
        raise BadInput(
            "the file has no URL of the agent's model, so a copy can be closed to it only with everything else",
            hint="leave out --real-model; or write providers: {NAME: {base_url: …, key_env: …}} under settings",
        )
    lacking = [name for name in _keys(own) if name not in agent.secrets and name != _GATEWAY_KEY]
    if lacking:
        raise BadInput(
            f"{', '.join(lacking)}, the key of the agent's model, is not under secrets",
            hint="leave out --real-model; a copy gets no variables of environment_files",
        )


def _of_its_model(agent: HermesSpec) -> dict[str, Any]:
    settings = model_server.completed(agent)
    return {key: settings[key] for key in _MODEL_KEYS if key in settings}


def _standing_in(url: str) -> dict[str, Any]:
    provider = {"base_url": url, "default_model": _MODEL, "discover_models": False}
    model = {"provider": f"custom:{_MODEL}", "default": _MODEL, "context_length": 131072}
    return {"model": model, "providers": {_MODEL: provider}, "model_catalog": {"enabled": False}}


def _keys(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the secrets with which an agent uses its model."""
    yield _GATEWAY_KEY
    providers = settings.get("providers")
    for provider in providers.values() if isinstance(providers, dict) else ():
        if isinstance(provider, dict) and isinstance(provider.get("key_env"), str):
            yield provider["key_env"]
    model = settings.get("model")
    key = str(model.get("api_key", "")) if isinstance(model, dict) else ""
    if key.startswith("${") and key.endswith("}"):
        yield key[2:-1]
