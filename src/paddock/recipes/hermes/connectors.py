"""Connectors and MCP servers as Hermes' own variables and settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paddock.recipes.hermes import mcp
from paddock.recipes.hermes.connector_spec import RouteSpec, WebhookSpec
from paddock.recipes.hermes.platforms import PLATFORMS, home_variable, prefix
from paddock.recipes.hermes.spec import HermesSpec
from paddock.recipes.reaches import named_in
from paddock.spec.egress import Endpoint


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
    for name, messenger in agent.messengers().items():
        values[f"{prefix(name)}_ALLOWED_USERS"] = ",".join(messenger.allow)
        values[f"{prefix(name)}_ALLOW_ALL_USERS"] = "true" if messenger.allow_all else "false"
        if messenger.home_channel:
            values[home_variable(name)] = messenger.home_channel
        listener = PLATFORMS[name].listener
        if listener and listener.host:
            values[listener.host] = agent.listens_on(name)
    if matrix := agent.connectors.matrix:
        values |= {"MATRIX_HOMESERVER": matrix.homeserver, "MATRIX_E2EE_MODE": "off"}
        values |= {"MATRIX_USER_ID": matrix.user_id} if matrix.user_id else {}
    if ntfy := agent.connectors.ntfy:
        # Hermes gives every message of a topic one user: the topic.
        values |= {"NTFY_SERVER_URL": ntfy.server, "NTFY_TOPIC": ntfy.topic, "NTFY_ALLOWED_USERS": ntfy.topic}
        values |= {"NTFY_ALLOW_ALL_USERS": "false", "NTFY_PUBLISH_TOPIC": ntfy.publish_topic or ntfy.topic}
    if webhook := agent.connectors.webhook:
        values |= {"WEBHOOK_ENABLED": "true", "WEBHOOK_PORT": str(webhook.port)}
    return values


def settings(agent: HermesSpec) -> dict[str, Any]:
    """Return the settings of connectors and MCP servers that have no variable."""
    found: dict[str, Any] = {}
    talk = agent.connectors
    if agent.messengers() or talk.ntfy:
        found["unauthorized_dm_behavior"] = "ignore"  # the default offers unknown users to pair with the agent
    if talk.telegram and talk.telegram.endpoint:
        found["telegram"] = {"extra": {"base_url": f"{talk.telegram.endpoint.rstrip('/')}/bot"}}
    platforms = {}
    if talk.webhook:
        platforms["webhook"] = {"enabled": True, "extra": _webhook(talk.webhook, agent.listens_on("webhook"))}
    if talk.homeassistant:
        watched = talk.homeassistant.watch
        domains = [each for each in watched if "." not in each]
        entities = [each for each in watched if "." in each]
        platforms["homeassistant"] = {"extra": {"watch_domains": domains, "watch_entities": entities}}
    if platforms:
        found["platforms"] = platforms
    if agent.mcp_servers:
        found["mcp_servers"] = {name: mcp.settings(server) for name, server in agent.mcp_servers.items()}
    return found


def names(agent: HermesSpec) -> tuple[str, ...]:
    """Return the names of all enabled connectors, as in Hermes' state."""
    others = (name for name in ("ntfy", "webhook", "homeassistant") if getattr(agent.connectors, name) is not None)
    return ("api_server", *agent.messengers(), *others)


def extras(agent: HermesSpec) -> Iterator[str]:
    """Yield the extras of the Python package that the enabled messengers need."""
    yield from sorted({extra for name in agent.messengers() if (extra := PLATFORMS[name].extra)})


def reaches(agent: HermesSpec) -> list[Endpoint]:
    """Return the servers of the enabled messengers, as far as the file or the table of messengers names them.

    A Bot API server that the file names is among the settings. Other URLs are in the agent's environment.
    """
    talk = agent.connectors
    own = {"telegram"} if talk.telegram and talk.telegram.endpoint else set()
    fixed = [Endpoint(host, 443) for name in agent.messengers() if name not in own for host in PLATFORMS[name].servers]
    hosts = [(agent.environment.get(host), agent.environment.get(port, number)) for host, port, number in _hosts(agent)]
    urls = [talk.matrix.homeserver if talk.matrix else None, talk.ntfy.server if talk.ntfy else None]
    return [*fixed, *named_in(urls, [f"tcp://{host}:{port}" for host, port in hosts if host])]


def _hosts(agent: HermesSpec) -> Iterator[tuple[str, str, int]]:
    for name in agent.messengers():
        yield from PLATFORMS[name].hosts


def _webhook(webhook: WebhookSpec, host: str) -> dict[str, Any]:
    routes = {name: _route(route) for name, route in webhook.routes.items()}
    return {"host": host, "port": webhook.port, "rate_limit": webhook.rate_limit, "routes": routes}


def _route(route: RouteSpec) -> dict[str, Any]:
    given = route.model_dump(exclude={"secret_env"}, exclude_defaults=True)
    return {**given, **({"secret": f"${{{route.secret_env}}}"} if route.secret_env else {})}
