"""A model server that the settings name by its URL alone, and its key.

Hermes gives OPENAI_API_KEY to OpenAI's own servers only. To another one it sends the text ``no-key-required``, unless
the server is a provider with a ``key_env`` (hermes_cli/runtime_provider.py).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from paddock.kinds.hermes.providers import known_as, own_names
from paddock.kinds.hermes.spec import HermesSpec

_KEY: Final = "OPENAI_API_KEY"
_NAME: Final = "openai-compatible"  # the provider that stands for such a server
# Servers that Hermes has a key for, by the ends of their names. It derives the keys of others from their names.
_KEYS: Final = {"openai.com": _KEY, "openai.azure.com": _KEY, "openrouter.ai": "OPENROUTER_API_KEY"}
_KEYS_OF_CUSTOM: Final = {**_KEYS, "ollama.com": "OLLAMA_API_KEY"}
_BESIDE: Final = ("fallback_model", "fallback_providers", "auxiliary")
_PRIVATE: Final = ("lan", "local", "localdomain", "home", "internal", "arpa")  # ends of names that are not public


def completed(agent: HermesSpec) -> Mapping[str, Any]:
    """Return the agent's settings, in which such servers have a key if the agent has one."""
    settings = {**agent.settings, **_beside_the_model(agent)}
    model = settings.get("model")
    if not is_named_by_url(settings) or not isinstance(model, dict) or not _takes_the_key(agent, model):
        return settings
    given = settings.get("providers")
    providers = dict(given) if isinstance(given, dict) else {}
    name = _NAME
    while name in own_names(settings):
        name += "-"
    entry = {"base_url": model["base_url"], "key_env": _KEY, "api_mode": model.get("api_mode")}
    providers[name] = {key: value for key, value in entry.items() if value}
    return {**settings, "model": {**model, "provider": f"custom:{name}"}, "providers": providers}


def key_of_hermes(agent: HermesSpec) -> str | None:
    """Return the variable in which Hermes itself looks for the key of such a server, if the agent may have one."""
    model = agent.settings.get("model")
    if not isinstance(model, dict) or not is_named_by_url(agent.settings):
        return None
    keys = _keys_of(_host(model["base_url"]))
    known = next((key for key in keys if key in _known(agent)), None)
    return known or (keys[0] if keys and agent.environment_files else None)


def is_sure(agent: HermesSpec, key: str) -> bool:
    """Return whether the agent has the key of its server, or the file names it.

    A key that the file does not name may be missing in a file of variables.
    """
    return key in _known(agent) or not is_named_by_url(agent.settings) or _names_a_key(agent.settings["model"])


def _known(agent: HermesSpec) -> set[str]:
    return {*agent.secrets, *agent.environment}


def _beside_the_model(agent: HermesSpec) -> Mapping[str, Any]:
    """Return the other sections that name models. There, Hermes reads ``key_env`` beside the URL."""
    return {name: _with_key(agent, agent.settings[name]) for name in _BESIDE if name in agent.settings}


def _with_key(agent: HermesSpec, part: Any) -> Any:
    if isinstance(part, list):
        return [_with_key(agent, each) for each in part]
    if not isinstance(part, dict):
        return part
    if known_as(str(part.get("provider"))) == "custom" and "key_env" not in part and _takes_the_key(agent, part):
        return {**part, "key_env": _KEY}
    return {key: _with_key(agent, each) for key, each in part.items()}


def is_named_by_url(settings: Mapping[str, Any]) -> bool:
    """Return whether the settings name the model's server by its URL alone."""
    model = settings.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("base_url"), str) or not model["base_url"].strip():
        return False
    provider = model.get("provider") or "auto"
    if not isinstance(provider, str) or provider.strip().lower() in own_names(settings):
        return False
    if known_as(provider) == "auto":
        # At these, Hermes would choose a provider by its keys.
        return not _of(_host(model["base_url"]), ("openrouter.ai", "anthropic.com", "openai.com"))
    return known_as(provider) == "custom"


def _takes_the_key(agent: HermesSpec, model: Mapping[str, Any]) -> bool:
    if _names_a_key(model):
        return False
    host = _host(str(model.get("base_url", "")))
    if not host or _of(host, _KEYS):
        return False
    known = _known(agent)
    if not known.isdisjoint(_keys_of(host)):
        return False
    if known_as(str(model.get("provider") or "auto")) == "auto":
        # Hermes takes the server for OpenRouter's, and its key too.
        return _KEY in known and "OPENROUTER_API_KEY" not in known and not agent.environment_files
    # Which variables are in a file is not known here. The key of a public server may be one of them.
    return _KEY in known or (bool(agent.environment_files) and _is_private(host))


def _names_a_key(part: Mapping[str, Any]) -> bool:
    return bool(part.get("api_key") or part.get("api"))


def _keys_of(host: str) -> list[str]:
    """Return the variables in which Hermes looks for the key of a server, by its name."""
    labels = [label for label in host.rstrip(".").split(".") if label]
    while labels[:1] in (["api"], ["www"]):
        del labels[0]
    derived = "".join(each if each.isalnum() else "_" for each in labels[-2]).upper() if labels[1:] else ""
    fixed = [key for end, key in _KEYS_OF_CUSTOM.items() if _of(host, (end,))]
    return [*fixed, f"{derived}_API_KEY"] if derived else fixed


def _is_private(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = host.rstrip(".").split(".")
        return len(labels) < 2 or labels[-1] in _PRIVATE
    return True


def _host(url: str) -> str:
    try:
        return (urlsplit(url.strip()).hostname or "").lower()
    except ValueError:
        return ""


def _of(host: str, domains: Any) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)
