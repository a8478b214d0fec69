"""Connectors: as variables and settings of Hermes, and the rules for who may talk to the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.file.kinds import Mistake
from paddock.file.models.network import Endpoint
from paddock.kinds.endpoints import named_in
from paddock.kinds.hermes import mcp
from paddock.kinds.hermes.platforms import PLATFORMS, home_variable, prefix
from paddock.kinds.hermes.spec import HermesSpec, RouteSpec, WebhookSpec


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


# Destinations of a webhook's answers that are not connectors.
_ELSEWHERE: Final = ("log", "github_comment")
_MATRIX_SECRETS: Final = ("MATRIX_ACCESS_TOKEN", "MATRIX_PASSWORD")
_WHO: Final = "allow: [USER_ID]"
# What says who may talk, for connectors without users.
_WHO_ELSE: Final = {"ntfy": "topic: TOPIC", "webhook": "routes: {NAME: {}}", "homeassistant": "watch: [DOMAIN]"}


def mistakes(agent: HermesSpec) -> Iterator[Mistake]:
    """Yield the location, relative to the agent, and the message of each mistake."""
    yield from _needed(agent)
    yield from _matrix(agent)
    yield from _webhook_mistakes(agent)
    yield from _listeners(agent)
    yield from _started_elsewhere(agent)
    yield from _decided_here(agent)


def _needed(agent: HermesSpec) -> Iterator[Mistake]:
    needs = {name: PLATFORMS[name].needs for name in agent.messengers()}
    if agent.connectors.homeassistant:
        needs["homeassistant"] = ("HASS_TOKEN", "HASS_URL")
    for name, variables in needs.items():
        lacking = [each for each in variables if each not in agent.secrets and each not in agent.environment]
        if lacking and not agent.environment_files:
            fixed = name in ("telegram", "discord", "slack")  # they need nothing but tokens
            where = "under secrets" if fixed else "under secrets or environment"
            yield ("connectors", name), f"needs {' and '.join(lacking)} {where}"


def _matrix(agent: HermesSpec) -> Iterator[Mistake]:
    matrix = agent.connectors.matrix
    if matrix is None:
        return
    at = ("connectors", "matrix")
    if agent.secrets.keys().isdisjoint(_MATRIX_SECRETS) and not agent.environment_files:
        yield at, f"needs {' or '.join(_MATRIX_SECRETS)} under secrets"
    if "MATRIX_PASSWORD" in agent.secrets and "MATRIX_ACCESS_TOKEN" not in agent.secrets and not matrix.user_id:
        yield at, "needs user_id: '@NAME:SERVER' to log in with MATRIX_PASSWORD"
    if str(agent.environment.get("MATRIX_ENCRYPTION", "")).lower() in ("1", "true", "yes"):
        sentence = "encryption needs python-olm, which has no wheel; the agent talks in rooms without encryption"
        yield ("environment", "MATRIX_ENCRYPTION"), sentence


def _webhook_mistakes(agent: HermesSpec) -> Iterator[Mistake]:
    webhook = agent.connectors.webhook
    for name, route in webhook.routes.items() if webhook else ():
        at = ("connectors", "webhook", "routes", name)
        if route.secret_env and route.secret_env not in agent.secrets:
            # Hermes would take the text ${NAME} itself for the secret, so a variable from elsewhere is not enough.
            yield (*at, "secret_env"), f"{route.secret_env} is not under secrets"
        if not route.secret_env and "WEBHOOK_SECRET" not in agent.secrets and not agent.environment_files:
            yield at, "needs a secret for its messages: WEBHOOK_SECRET under secrets, or secret_env: NAME"
        yield from (((*at, key), sentence) for key, sentence in _delivery(agent, route))


def _delivery(agent: HermesSpec, route: RouteSpec) -> Iterator[tuple[str, str]]:
    targets = [name for name in names(agent) if name not in ("api_server", "webhook")]
    if route.deliver not in (*_ELSEWHERE, *targets):
        yield "deliver", f"must be {' or '.join((*_ELSEWHERE, *targets))}; other connectors are not enabled"
    if route.deliver_only and route.deliver == "log":
        yield "deliver_only", "needs deliver: CONNECTOR, the destination of the message"


def _listeners(agent: HermesSpec) -> Iterator[Mistake]:
    for name in agent.messengers():
        listener = PLATFORMS[name].listener
        if listener is None:
            continue
        given = agent.environment.get(listener.port)
        if given is not None and not (given.isascii() and given.isdecimal() and 0 < int(given[:6]) < 1 << 16):
            yield ("environment", listener.port), "must be a port: a number from 1 to 65535"
        if listener.host is None and (name not in agent.expose or agent.listens_on(name) != "0.0.0.0"):  # noqa: S104
            yield ("connectors", name), f"listens on all addresses; if that is meant, write expose: {{{name}: {{}}}}"


def _started_elsewhere(agent: HermesSpec) -> Iterator[Mistake]:
    """Yield variables that would start a connector although the file does not say who may talk to the agent."""
    enabled = names(agent)
    given = {**dict.fromkeys(agent.secrets, "secrets"), **dict.fromkeys(agent.environment, "environment")}
    starters = {name: each.starts or each.needs for name, each in PLATFORMS.items()}
    starters |= {"ntfy": ("NTFY_TOPIC",), "webhook": ("WEBHOOK_ENABLED",)}
    for name, variables in starters.items():
        if name not in enabled and variables and all(each in given for each in variables):
            yield (given[variables[0]], variables[0]), f"needs {_users(name)}"


def in_settings(agent: HermesSpec, settings: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield settings that would start a connector missing in the file; locations are relative to the settings."""
    enabled = names(agent)
    for place in ((), ("platforms",), ("gateway", "platforms")):
        section: Any = settings
        for key in place:
            section = section.get(key) if isinstance(section, dict) else None
        for name in (*PLATFORMS, *_WHO_ELSE) if isinstance(section, dict) else ():
            platform = section.get(name)
            if name not in enabled and isinstance(platform, dict) and platform.get("enabled"):
                yield (*place, name), f"needs {_users(name)}"


def _users(name: str) -> str:
    who = _WHO_ELSE.get(name, _WHO)
    return f"the users who may talk to the bot: connectors: {{{name}: {{{who}}}}}"


def _decided_here(agent: HermesSpec) -> Iterator[Mistake]:
    """Yield variables in the environment that connectors decide."""
    words = ("ALLOWED_USERS", "ALLOW_ALL_USERS")
    who = {f"{each}_{word}" for each in ("GATEWAY", "NTFY", *map(prefix, PLATFORMS)) for word in words}
    decided = environment(agent).keys()
    for variable in agent.environment:
        if variable in who:
            sentence = "write the users who may talk to the agent under connectors: allow: [USER_ID]"
            yield ("environment", variable), sentence
        elif variable in decided:
            yield ("environment", variable), "is decided by connectors and expose; write it there"
