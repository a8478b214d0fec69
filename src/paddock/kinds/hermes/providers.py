"""Hermes' built-in model providers: their names, the variables with their keys, and the extras that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import urlsplit

from paddock.base.frozen import frozen
from paddock.file.kinds import Mistake
from paddock.file.tree import Location
from paddock.kinds.hermes import versions
from paddock.kinds.hermes.spec import HermesSpec, section


@frozen
class Provider:
    """A provider that Hermes knows by name (hermes_cli/auth.py and plugins/model-providers)."""

    keys: tuple[str, ...] = ()  # the variables for its key, one of which is enough; none if it needs no fixed key
    aliases: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()  # of the Python package; without them Hermes fails at the first prompt
    since: versions.Version = ()


# Whoever speaks the protocol of Anthropic needs this extra; some providers do it for some of their models or keys.
_MESSAGES: Final = ("anthropic",)

# The providers of 0.18 and 0.19, in the order in which Hermes looks for a key if the file names no provider.
PROVIDERS: Final[Mapping[str, Provider]] = {
    "openrouter": Provider(("OPENROUTER_API_KEY",), ("or",)),
    "nous": Provider(aliases=("nous-portal", "nousresearch")),
    "openai-codex": Provider(aliases=("codex", "openai_codex")),
    "openai-api": Provider(("OPENAI_API_KEY",)),
    "xai-oauth": Provider(aliases=("x-ai-oauth", "grok-oauth", "xai-grok-oauth")),
    "qwen-oauth": Provider(aliases=("qwen-portal", "qwen-cli", "qwen")),
    "lmstudio": Provider(aliases=("lm-studio", "lm_studio")),
    "copilot": Provider(aliases=("github", "github-copilot", "github-models", "github-model"), extras=_MESSAGES),
    "copilot-acp": Provider(aliases=("github-copilot-acp", "copilot-acp-agent")),
    "gemini": Provider(("GOOGLE_API_KEY", "GEMINI_API_KEY"), ("google", "google-gemini", "google-ai-studio")),
    "zai": Provider(("GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY"), ("glm", "z-ai", "z.ai", "zhipu")),
    "kimi-coding": Provider(
        ("KIMI_API_KEY", "KIMI_CODING_API_KEY"), ("kimi", "kimi-for-coding", "moonshot"), _MESSAGES
    ),
    "kimi-coding-cn": Provider(("KIMI_CN_API_KEY",), ("kimi-cn", "moonshot-cn")),
    "stepfun": Provider(("STEPFUN_API_KEY",), ("step", "stepfun-coding-plan")),
    "arcee": Provider(("ARCEEAI_API_KEY",), ("arcee-ai", "arceeai")),
    "gmi": Provider(("GMI_API_KEY",), ("gmi-cloud", "gmicloud")),
    "minimax": Provider(("MINIMAX_API_KEY",), ("mini-max",), _MESSAGES),
    "minimax-oauth": Provider(
        aliases=("minimax-portal", "minimax-global", "minimax_oauth", "minimax-oauth-io"), extras=_MESSAGES
    ),
    "anthropic": Provider(
        ("ANTHROPIC_API_KEY", "ANTHROPIC_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        ("claude", "claude-code", "claude-oauth"),
        _MESSAGES,
    ),
    "alibaba": Provider(("DASHSCOPE_API_KEY",), ("dashscope", "alibaba-cloud", "qwen-dashscope")),
    "alibaba-coding-plan": Provider(
        ("ALIBABA_CODING_PLAN_API_KEY", "DASHSCOPE_API_KEY"),
        ("alibaba_coding", "alibaba-coding", "alibaba_coding_plan", "dashscope-coding"),
    ),
    "minimax-cn": Provider(("MINIMAX_CN_API_KEY",), ("minimax-china", "minimax_cn"), _MESSAGES),
    "deepseek": Provider(("DEEPSEEK_API_KEY",), ("deepseek-chat",)),
    "xai": Provider(("XAI_API_KEY",), ("x-ai", "x.ai", "grok")),
    "nvidia": Provider(("NVIDIA_API_KEY",), ("nvidia-nim",)),
    "opencode-zen": Provider(("OPENCODE_ZEN_API_KEY",), ("opencode", "zen", "opencode_zen"), _MESSAGES),
    "opencode-go": Provider(("OPENCODE_GO_API_KEY",), ("go", "opencode-go-sub", "opencode_go"), _MESSAGES),
    "kilocode": Provider(("KILOCODE_API_KEY",), ("kilo", "kilo-code", "kilo-gateway")),
    "huggingface": Provider(("HF_TOKEN",), ("hf", "hugging-face", "huggingface-hub")),
    "xiaomi": Provider(("XIAOMI_API_KEY",), ("mimo", "xiaomi-mimo")),
    "tencent-tokenhub": Provider(("TOKENHUB_API_KEY",), ("tencent", "tokenhub", "tencent-cloud", "tencentmaas")),
    "ollama-cloud": Provider(("OLLAMA_API_KEY",), ("ollama_cloud",)),
    # Hermes uses two packages for it: for Claude and for all other models.
    "bedrock": Provider(aliases=("aws", "aws-bedrock", "amazon-bedrock", "amazon"), extras=("anthropic", "bedrock")),
    "azure-foundry": Provider(("AZURE_FOUNDRY_API_KEY",), ("azure", "azure-ai-foundry", "azure-ai")),
    "deepinfra": Provider(("DEEPINFRA_API_KEY",), ("deep-infra", "deepinfra-ai"), since=(0, 19)),
    "fireworks": Provider(("FIREWORKS_API_KEY",), ("fireworks-ai", "fw"), since=(0, 19)),
    "novita": Provider(("NOVITA_API_KEY",), ("novita-ai", "novitaai")),
    "upstage": Provider(("UPSTAGE_API_KEY",), ("solar",), since=(0, 19)),
    "vertex": Provider(aliases=("google-vertex", "vertex-ai", "gcp-vertex", "vertexai"), extras=("vertex",)),
    "custom": Provider(aliases=("ollama", "vllm", "llamacpp", "llama.cpp", "llama-cpp", "local")),
}
# The providers that a person may choose when the file is written, with the URLs that Hermes 0.19 has for them
# (hermes_cli/auth.py; for openrouter hermes_cli/models.py). All of them have an OpenAI-compatible API.
ENDPOINTS: Final[Mapping[str, str]] = {
    "openrouter": "https://openrouter.ai/api/v1",
    "openai-api": "https://api.openai.com/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "nvidia": "https://integrate.api.nvidia.com/v1",
    "huggingface": "https://router.huggingface.co/v1",
}
_NAMES: Final = {alias: name for name, each in PROVIDERS.items() for alias in (name, *each.aliases)}
# Hermes has no model of its own for these (hermes_cli/models.py).
_WITHOUT_A_MODEL: Final = (
    *(
        "custom",
        "qwen-oauth",
        "lmstudio",
        "ollama-cloud",
        "azure-foundry",
        "deepinfra",
        "fireworks",
        "upstage",
        "vertex",
    ),
)
_WORDS: Final = ("auto", "moa")  # not providers: Hermes chooses one, or asks several
_KNOWN: Final = ((0, 18), (0, 19))  # the versions that the table is about

# The settings that name models. The key `provider` has other meanings elsewhere, such as under `tts`.
_SECTIONS: Final = (
    *("model", "providers", "custom_providers", "fallback_model", "fallback_providers"),
    *("delegation", "auxiliary", "moa"),
)
# The settings whose provider has to be known: it answers prompts.
_ANSWERING: Final = ("model", "fallback_model", "fallback_providers", "delegation")
_ELSEWHERE: Final = {"mistral": "https://api.mistral.ai/v1", "groq": "https://api.groq.com/openai/v1"}


@frozen
class NamedProvider:
    """A provider that a file can name without a URL."""

    name: str
    base_url: str | None  # of its OpenAI-compatible API, to try a key; None if it has none
    key_env: str  # the variable in which Hermes looks for the key


def named() -> list[NamedProvider]:
    """Return the providers for a person to choose from."""
    names = (*ENDPOINTS, "anthropic", "gemini")  # the last two have a protocol of their own
    return [NamedProvider(name, ENDPOINTS.get(name), PROVIDERS[name].keys[0]) for name in names]


def has_a_model(name: str) -> bool:
    """Return whether Hermes chooses a model of this provider if the settings name none."""
    return known_as(name) in PROVIDERS and known_as(name) not in _WITHOUT_A_MODEL


def known_as(name: str) -> str:
    """Return Hermes' own name of a provider; other names are returned as they are."""
    plain = name.strip().lower()
    return _NAMES.get(plain, plain)


def extras(agent: HermesSpec) -> Iterator[str]:
    """Yield the extras of the package that the providers in the agent's settings need."""
    for _, part in _parts(agent.settings):
        provider = part.get("provider")
        if isinstance(provider, str):
            yield from PROVIDERS.get(known_as(provider), Provider()).extras
        if part.get("auth_mode") == "entra_id":
            yield "azure-identity"
        if "anthropic_messages" in (part.get("api_mode"), part.get("transport")) or _speaks_messages(part):
            yield from _MESSAGES
    for name in _chosen_by_key(agent):
        yield from PROVIDERS[name].extras


def mistakes(agent: HermesSpec, settings: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield providers that Hermes does not know, or would use differently from the settings."""
    found = versions.version_of(agent)
    names = own_names(settings)
    for location, part in _parts(settings):
        name = part.get("provider")
        if not isinstance(name, str) or location[0] not in _ANSWERING:
            continue
        at = (*location, "provider")
        provider = PROVIDERS.get(known_as(name))
        plain = name.strip().lower()
        if plain in names and plain in PROVIDERS and plain != "custom":
            yield at, f"Hermes has a provider {plain} of its own and would not read providers.{plain}: rename yours"
        elif provider is None and found and found[:2] in _KNOWN and plain not in {*names, *_WORDS} and ":" not in plain:
            yield at, f"Hermes has no provider {plain}: {_instead(plain)}"
        elif provider and found and found < provider.since:
            yield at, f"Hermes has this provider since version {'.'.join(map(str, provider.since))}"
    yield from _url_of_anthropic(settings)


def _instead(name: str) -> str:
    if name == "openai":
        return "write openai-api"
    if close := get_close_matches(name, _NAMES, n=1, cutoff=0.8):
        return f"did you mean {close[0]}?"
    url, key = _ELSEWHERE.get(name, "https://…/v1"), f"{name.upper().replace('-', '_')}_API_KEY"
    return f"write custom:{name} and providers: {{{name}: {{base_url: {url}, key_env: {key}}}}}"


def _url_of_anthropic(settings: Mapping[str, Any]) -> Iterator[Mistake]:
    """Yield a URL that Hermes would ignore: it would send the prompts to Anthropic (hermes_cli/runtime_provider.py)."""
    model = settings.get("model")
    if not isinstance(model, dict) or known_as(str(model.get("provider"))) != "anthropic":
        return
    url = model.get("base_url")
    if isinstance(url, str) and "${" not in url and not _speaks_messages(model):
        host = urlsplit(url).hostname or ""
        if not host.endswith((".anthropic.com", ".claude.com", ".azure.com")):
            yield (
                ("model", "base_url"),
                "Hermes ignores this URL and would use Anthropic's: its path must end in /anthropic",
            )


def _speaks_messages(part: Mapping[str, Any]) -> bool:
    """Return whether Hermes concludes from the URL that a server speaks the protocol of Anthropic."""
    url = next((part[key] for key in ("base_url", "url", "api") if isinstance(part.get(key), str)), "")
    try:
        parts = urlsplit(url.strip().lower())
    except ValueError:
        return False
    path = parts.path.rstrip("/")
    return (
        parts.hostname == "api.anthropic.com"
        or path.endswith(("/anthropic", "/anthropic/v1"))
        or (parts.hostname == "api.kimi.com" and "/coding" in path)
    )


def _chosen_by_key(agent: HermesSpec) -> Iterator[str]:
    """Yield the providers that Hermes may choose by their keys, if the file names neither a provider nor a URL."""
    model = section(agent.settings, "model")
    if model.get("provider", "auto") != "auto" or model.get("base_url") or agent.model_gateway:
        return
    if agent.secrets.keys().isdisjoint(("OPENAI_API_KEY", "OPENROUTER_API_KEY")):  # with one of them, openrouter
        yield from (name for name, each in PROVIDERS.items() if not agent.secrets.keys().isdisjoint(each.keys))


def own(settings: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return the file's own provider of a name, as it is written under ``model.provider``."""
    plain = name.strip().lower().replace(" ", "-")
    found = dict(_own(settings))
    return found.get(plain) or found.get(plain.removeprefix("custom:"))


def own_names(settings: Mapping[str, Any]) -> set[str]:
    """Return the names of the file's own providers, as Hermes compares them."""
    return {name for name, _ in _own(settings)}


def _own(settings: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    new, old = settings.get("providers"), settings.get("custom_providers")
    entries = [*new.items()] if isinstance(new, dict) else []
    entries += [(None, each) for each in old] if isinstance(old, list) else []
    for key, entry in entries:
        given = entry if isinstance(entry, dict) else {}
        for name in (key, given.get("name")):
            if name is not None:
                yield str(name).strip().lower().replace(" ", "-"), given


def _parts(settings: Mapping[str, Any]) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """Yield every mapping in the settings that name models, with its location."""
    for name in _SECTIONS:
        yield from _mappings((name,), settings.get(name))


def _mappings(location: Location, value: Any) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    if isinstance(value, dict):
        yield location, value
        for key, below in value.items():
            yield from _mappings((*location, str(key)), below)
    elif isinstance(value, list):
        for at, below in enumerate(value):
            yield from _mappings((*location, str(at)), below)
