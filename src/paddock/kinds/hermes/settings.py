"""Rules for Hermes' own settings, because Hermes silently uses its defaults for most mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.file.kinds import Mistake
from paddock.file.tree import Location, Tree, texts
from paddock.kinds.hermes import documents, model_server, providers
from paddock.kinds.hermes.providers import PROVIDERS, Provider, known_as
from paddock.kinds.hermes.spec import HermesSpec, Managed, section

_NUMBER: Final = (int, float)
# The types of well-known keys; other keys are not checked.
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "model": (str, dict),
    **dict.fromkeys(("model.provider", "model.default", "model.base_url", "model.api_mode"), (str,)),
    **dict.fromkeys(("model.context_length", "model.max_tokens"), (int,)),
    **dict.fromkeys(("providers", "terminal", "agent", "compression", "memory", "display", "approvals"), (dict,)),
    **dict.fromkeys(("sessions", "security", "gateway", "platforms", "mcp_servers", "telegram"), (dict,)),
    **dict.fromkeys(("discord", "slack", "cron", "browser", "auxiliary", "delegation", "skills"), (dict,)),
    **dict.fromkeys(("toolsets", "custom_providers"), (list,)),
    **dict.fromkeys(("timezone", "terminal.backend", "terminal.cwd"), (str,)),
    **dict.fromkeys(("terminal.timeout", "agent.gateway_timeout", "agent.restart_drain_timeout"), _NUMBER),
    **dict.fromkeys(("max_turns", "agent.max_turns", "compression.protect_last_n"), (int,)),
    **dict.fromkeys(("compression.threshold", "compression.target_ratio"), _NUMBER),
    **dict.fromkeys(("compression.enabled", "display.compact", "display.streaming", "agent.verbose"), (bool,)),
    **dict.fromkeys(("memory.memory_enabled", "memory.user_profile_enabled", "sessions.auto_prune"), (bool,)),
    **dict.fromkeys(("security.allow_lazy_installs", "security.tirith_enabled"), (bool,)),
    **dict.fromkeys(("display.personality", "approvals.mode"), (str,)),
}
_TYPES_OF_A_PROVIDER: Final = dict.fromkeys(("base_url", "key_env", "api_key", "default_model", "api_mode"), str)
_NAMES: Final = {
    dict: "a mapping",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
}

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def mistakes(agent: HermesSpec, settings: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield the location, relative to the settings, and the message of each mistake."""
    yield from _types(settings)
    yield from _model(agent, settings)
    yield from providers.mistakes(agent, settings)
    yield from directory_mistakes(agent, settings)
    known = {*agent.secrets, *agent.environment}
    for name, provider in section(settings, "providers").items():
        yield from _provider(("providers", name), provider)
        key = provider.get("key_env") if isinstance(provider, dict) else None
        if isinstance(key, str) and key not in known and not agent.environment_files:
            yield ("providers", name, "key_env"), _neither(key)
    if not agent.environment_files:
        for location, text in texts(Tree(settings)):
            yield from ((location, _neither(name)) for name in _lacking(text, known))


def unnamed_variables(agent: HermesSpec) -> Iterator[Mistake]:
    """Yield references in the MCP servers to variables that the agent does not have."""
    known = {*agent.secrets, *agent.environment}
    if not agent.environment_files:
        for name, server in agent.mcp_servers.items():
            for location, text in texts(Tree(server.model_dump(mode="json", exclude_none=True))):
                at = ("mcp_servers", name, *location)
                yield from ((at, _neither(lacking)) for lacking in _lacking(text, known))


def _neither(name: str) -> str:
    return f"{name} is neither under secrets nor under environment"


def _lacking(text: str, known: set[str]) -> list[str]:
    return [name for name in _REFERENCE.findall(text) if name not in known]


def _types(settings: Mapping[str, Any]) -> Iterator[Mistake]:
    for path, kinds in _TYPES.items():
        location = tuple(path.split("."))
        node: Any = settings
        for part in location:
            node = node.get(part) if isinstance(node, dict) else None
        # In Python, True is an int.
        fits = isinstance(node, kinds) and (bool in kinds or not isinstance(node, bool))
        if node is not None and not fits:
            yield location, f"must be {' or '.join(dict.fromkeys(_NAMES[kind] for kind in kinds))}"


def _provider(location: Location, provider: Any) -> Iterator[Mistake]:
    if not isinstance(provider, dict):
        yield location, "must be a mapping, like {base_url: http://host:4000/v1, key_env: NAME}"
        return
    for key, kind in _TYPES_OF_A_PROVIDER.items():
        if provider.get(key) is not None and not isinstance(provider[key], kind):
            yield (*location, key), f"must be {_NAMES[kind]}"
    yield from _url(location, provider)


def _url(location: Location, part: Mapping[str, Any]) -> Iterator[Mistake]:
    url = part.get("base_url")
    if isinstance(url, str) and not re.match(r"(https?://|\$\{)", url):
        yield (*location, "base_url"), "must begin with http:// or https://"


def _model(agent: HermesSpec, settings: Mapping[str, Any]) -> Iterator[Mistake]:
    model = section(settings, "model")
    provider = model.get("provider")
    if "key_env" in model:
        yield (
            ("model", "key_env"),
            "Hermes does not read key_env here; write providers: {NAME: {base_url: …, key_env: …}}",
        )
    yield from _url(("model",), model)
    # With `pinned`, the agent may choose a model.
    if agent.managed is Managed.STRICT and agent.model_gateway is None and _lacks_a_name(settings):
        sentence = "the name of the model is missing; write default: MODEL, a name that the server offers"
        yield ("model", "default"), sentence
    if not isinstance(provider, str):
        return
    own = section(settings, "providers")
    at = ("model", "provider")
    kind, _, name = provider.partition(":")
    older = settings.get("custom_providers")
    if kind == "custom" and name:
        names = [*own, *(each.get("name") for each in older if isinstance(each, dict))] if older else [*own]
        if name not in names and agent.model_gateway is None:
            there = f"there is {', '.join(map(str, names))}" if names else "there is none"
            yield at, f"needs providers: {{{name}: {{base_url: …}}}} ({there})"
    elif provider == "custom" and not model.get("base_url"):
        yield at, "needs model.base_url, or write custom:NAME and providers: {NAME: {base_url: …}}"
    elif model.get("auth_mode") != "entra_id":
        keys = PROVIDERS.get(known_as(provider), Provider()).keys
        elsewhere = agent.environment_files or agent.auth or provider in own
        if keys and not elsewhere and agent.secrets.keys().isdisjoint(keys):
            yield at, f"needs {' or '.join(keys)} under secrets"


def _lacks_a_name(settings: Mapping[str, Any]) -> bool:
    """Return whether neither the settings nor Hermes choose a model of the server that they name."""
    model = section(settings, "model")
    provider = model.get("provider")
    if model.get("default") or model.get("model"):
        return False
    if not isinstance(provider, str) or model_server.is_named_by_url(settings):
        return model_server.is_named_by_url(settings)
    found = providers.own(settings, provider)
    if found is None:
        return not providers.has_a_model(provider) and known_as(provider) in PROVIDERS
    return not (found.get("default_model") or found.get("model"))


# For these Hermes would use the home of the agent's account, whatever the working directory of its process is.
_PLACEHOLDERS: Final = ("", ".", "auto", "cwd")


def with_directory(settings: Mapping[str, Any], directory: str) -> dict[str, Any]:
    """Return the settings with the working directory as ``terminal.cwd``, unless they have a path there.

    Commands that run in a sandbox or on another machine do not have the working directory.
    """
    terminal = settings.get("terminal") or {}
    if not isinstance(terminal, dict) or not _is_local(terminal) or not _is_placeholder(terminal):
        return dict(settings)
    return {**settings, "terminal": {**terminal, "cwd": directory}}


def directory_mistakes(agent: HermesSpec, settings: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield paths that Hermes would not find, and paths where it would not find a document."""
    terminal = settings.get("terminal")
    if not isinstance(terminal, dict) or _is_placeholder(terminal) or not _is_local(terminal):
        return
    cwd, at = terminal["cwd"], ("terminal", "cwd")
    if not isinstance(cwd, str):
        return  # the rule about types tells
    if not cwd.startswith(("/", "~/", "${")):
        yield at, "must be an absolute path; leave it out for the agent's working_directory"
    elif (name := documents.project_file(agent)) and cwd != agent.working_directory:
        yield at, f"Hermes would read {name} there, not in working_directory; write the path as working_directory"


def _is_placeholder(terminal: Mapping[str, Any]) -> bool:
    cwd = terminal.get("cwd")
    return cwd is None or (isinstance(cwd, str) and cwd.strip() in _PLACEHOLDERS)


def _is_local(terminal: Mapping[str, Any]) -> bool:
    """Whether commands run on the agent's machine, and not in a sandbox or on another machine."""
    return terminal.get("backend") in (None, "", "local")
