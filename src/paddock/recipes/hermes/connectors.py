"""Connectors and MCP servers as Hermes' own variables and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paddock.recipes.hermes import mcp
from paddock.recipes.hermes.spec import HermesSpec, MessengerSpec
from paddock.spec.egress import Endpoint

# The servers of the messengers; those of Telegram only without an endpoint in the file.
_SERVERS: Final = {
    "telegram": ("api.telegram.org",),
    "discord": ("discord.com", "gateway.discord.gg", "cdn.discordapp.com"),
    "slack": ("slack.com", "files.slack.com", "wss-primary.slack.com", "wss-backup.slack.com"),
}


def environment(agent: HermesSpec) -> dict[str, str]:
    """Return the variables of all connectors, without tokens and keys, which are secrets."""
    api = agent.connectors.api_server
    # Empty values are set too: Hermes would look for unset variables in files that the agent can write to.
    values = {
        "API_SERVER_ENABLED": "true",
        "API_SERVER_HOST": agent.listens_on("api_server"),
        "API_SERVER_PORT": str(api.port),
        "API_SERVER_CORS_ORIGINS": ",".join(api.cors_origins),
        "API_SERVER_MODEL_NAME": api.model_name or "",
        "GATEWAY_ALLOWED_USERS": "",
        "GATEWAY_ALLOW_ALL_USERS": "false",
    }
    for name, messenger in messengers(agent).items():
        values[f"{name.upper()}_ALLOWED_USERS"] = ",".join(messenger.allow)
        values[f"{name.upper()}_ALLOW_ALL_USERS"] = "true" if messenger.allow_all else "false"
        if messenger.home_channel:
            values[f"{name.upper()}_HOME_CHANNEL"] = messenger.home_channel
    return values


def settings(agent: HermesSpec) -> dict[str, Any]:
    """Return the settings of connectors and MCP servers that have no variable."""
    found: dict[str, Any] = {}
    if messengers(agent):
        found["unauthorized_dm_behavior"] = "ignore"  # the default offers unknown users to pair with the agent
    telegram = agent.connectors.telegram
    if telegram and telegram.endpoint:
        found["telegram"] = {"extra": {"base_url": f"{telegram.endpoint.rstrip('/')}/bot"}}
    if agent.mcp_servers:
        found["mcp_servers"] = {name: mcp.settings(server) for name, server in agent.mcp_servers.items()}
    return found


def messengers(agent: HermesSpec) -> Mapping[str, MessengerSpec]:
    """Return the enabled messengers by name."""
    talk = agent.connectors
    every = {"telegram": talk.telegram, "discord": talk.discord, "slack": talk.slack}
    return {name: messenger for name, messenger in every.items() if messenger is not None}


def reaches(agent: HermesSpec) -> list[Endpoint]:
    """Return the servers of the enabled messengers. A Bot API server that the file names is among the settings."""
    telegram = agent.connectors.telegram
    own = {"telegram"} if telegram and telegram.endpoint else set()
    return [Endpoint(host, 443) for name in messengers(agent) if name not in own for host in _SERVERS[name]]
