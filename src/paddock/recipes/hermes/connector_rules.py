"""Rules for connectors: each has what it needs, and none starts without a word on who may talk to the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.recipes.hermes import connectors
from paddock.recipes.hermes.connector_spec import RouteSpec
from paddock.recipes.hermes.platforms import PLATFORMS, prefix
from paddock.recipes.hermes.spec import HermesSpec
from paddock.spec.kinds import Mistake

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
    yield from _webhook(agent)
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


def _webhook(agent: HermesSpec) -> Iterator[Mistake]:
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
    targets = [name for name in connectors.names(agent) if name not in ("api_server", "webhook")]
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
    """Yield what would start a connector without a word in the file on who may talk to the agent."""
    enabled = connectors.names(agent)
    given = {**dict.fromkeys(agent.secrets, "secrets"), **dict.fromkeys(agent.environment, "environment")}
    starters = {name: each.starts or each.needs for name, each in PLATFORMS.items()}
    starters |= {"ntfy": ("NTFY_TOPIC",), "webhook": ("WEBHOOK_ENABLED",)}
    for name, variables in starters.items():
        if name not in enabled and variables and all(each in given for each in variables):
            yield (given[variables[0]], variables[0]), f"needs {_users(name)}"


def in_settings(agent: HermesSpec, settings: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield settings that would start a connector which the file does not have; locations are relative to them."""
    enabled = connectors.names(agent)
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
    decided = connectors.environment(agent).keys()
    for variable in agent.environment:
        if variable in who:
            sentence = "write the users who may talk to the agent under connectors: allow: [USER_ID]"
            yield ("environment", variable), sentence
        elif variable in decided:
            yield ("environment", variable), "is decided by connectors and expose; write it there"
