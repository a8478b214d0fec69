"""What Hermes can be asked about itself: its commands end with 0 in every case, so its files and its model tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from paddock.recipes.checks import Attempt, Check, Databases, ReadFile
from paddock.recipes.workload import Answer, Request, Verdict
from paddock.visible import lines


class Endpoint(NamedTuple):
    """Where models are asked for, and the variable with the key."""

    url: str
    key: str | None


def gateway(name: str, hermes_home: str, connectors: frozenset[str]) -> Iterator[Check]:
    """Its own account of itself, and of its connectors."""
    state = ReadFile(f"{hermes_home}/gateway_state.json")
    logs = f"`paddock logs {name}` tells why"
    yield Check("gateway", state, _runs, logs)
    yield Check("connectors", state, lambda found: _connected(found, connectors), logs, needs="gateway", settles=True)


def _runs(found: Any) -> Verdict:
    if not isinstance(found, dict):
        return Verdict(False, "it has not written gateway_state.json")
    reason = found.get("exit_reason")
    said = f"{found.get('gateway_state')}, {found.get('active_agents', 0)} conversations under way"
    return Verdict(found.get("gateway_state") == "running", f"{said}; {reason}" if reason else said)


def refusals(hermes: str, refused: Sequence[Sequence[str]]) -> Check:
    """Whether the commands that are not the agent's to use are refused; where they are not, they print their help."""
    script = """hermes=$1; shift
for words; do
    "$hermes" $words --help 2>&1 | grep -q "managed by paddock" || echo "$words"
done"""
    commands = [" ".join(words) for words in refused]
    attempt = Attempt(("sh", "-c", script, "paddock", hermes, *commands))
    hint = "something changed its command or its configuration: `paddock cycle`"
    return Check("managed", attempt, lambda done: _refused(done, commands), hint)


def _refused(done: Mapping[str, Any], commands: Sequence[str]) -> Verdict:
    allowed = lines(str(done["out"]))
    if allowed or done["code"] != 0:
        return Verdict(False, f"not refused: {', '.join(allowed)}" if allowed else f"not tried: {done['err']}")
    return Verdict(True, f"refused: {', '.join(commands)}")


def pinned(scope: str) -> Check:
    """Whether what the file sets holds where the command is not ours: it can be read, and not be changed."""
    script = """cd "$1" || exit
for each in . config.yaml .env; do
    [ -r "$each" ] && [ ! -w "$each" ] || echo "$each"
done"""
    hint = "something changed what its container sees: `paddock up --recreate`"
    return Check("managed", Attempt(("sh", "-c", script, "paddock", scope)), lambda done: _fixed(done, scope), hint)


def _fixed(done: Mapping[str, Any], scope: str) -> Verdict:
    loose = str(done["out"]).split()
    if loose or done["code"] != 0:
        return Verdict(False, f"not fixed in {scope}: {', '.join(loose)}" if loose else f"not tried: {done['err']}")
    return Verdict(True, f"fixed in {scope}; the command is its image's own")


def dashboard(name: str, url: str) -> Iterator[Check]:
    """Whether its page is there, and what it says of the agent."""
    logs = f"`paddock logs {name}` tells why"
    yield Check("dashboard", Request("GET", f"{url}/", seconds=5), _page, logs, settles=True)
    status = Request("GET", f"{url}/api/status", seconds=5)
    yield Check("dashboard.status", status, _status, logs, needs="dashboard", settles=True)


def _page(answer: Answer) -> Verdict:
    page = answer.status == 200 and "<html" in str(answer.body).lower()
    return Verdict(page, "its page is there" if page else f"/ answered {answer.status}, and no page")


def _status(answer: Answer) -> Verdict:
    running = isinstance(answer.body, dict) and answer.body.get("gateway_running")
    return Verdict(
        bool(running), "the gateway runs" if running else f"/api/status answered {answer.status}, no gateway"
    )


def _connected(found: Any, wanted: frozenset[str]) -> Verdict:
    platforms: Mapping[str, Any] = (found.get("platforms") if isinstance(found, dict) else None) or {}
    # One that the file no longer names stays there as it was left.
    left = {name for name, platform in platforms.items() if platform.get("state") == "disconnected"} - wanted
    told = []
    for name in sorted((wanted | platforms.keys()) - left):
        platform = platforms.get(name, {"state": "not started"})
        reason = platform.get("error_message")
        told.append(f"{name} {platform.get('state')}" + (f" ({reason})" if reason else ""))
    ok = all(platforms.get(name, {}).get("state") == "connected" for name in (wanted | platforms.keys()) - left)
    return Verdict(ok, ", ".join(told))


_MAY_BE_WHOLE: Final = (
    "its disk may be full, or the file in use: make room (state.size lets it grow) and look again; "
    "the database itself may be whole"
)
# What SQLite says of a file whose content is wrong, and not of a disk that is full or a file in use.
_DAMAGE: Final = ("malformed", "not a database", "***", "Tree ", "row ", "wrong # of entries", "missing from index")


def databases(name: str, hermes_home: str) -> Check:
    """Whether SQLite finds its databases sound."""
    hint = f"`paddock logs {name}` may tell why; stop it and restore the file from a backup"
    return Check("databases", Databases(hermes_home, ("*.db", "kanban/boards/**/*.db")), _sound, hint)


def _sound(found: Mapping[str, str]) -> Verdict:
    broken = [f"{path}: {said}" for path, said in found.items() if said != "ok"]
    damaged = any(word in said for said in found.values() for word in _DAMAGE)
    return Verdict(
        not broken,
        "; ".join(broken) or f"{', '.join(found) or 'none yet'}: quick_check ok",
        # A database that could not be opened or read may be whole: nothing is put in its place for that.
        None if damaged else _MAY_BE_WHOLE,
    )


def model(settings: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the model's server takes the key, from where the agent is, and offers the model."""
    short = settings.get("model")
    default = short if isinstance(short, str) else _section(settings, "model").get("default")
    endpoint = _endpoint(settings)
    if endpoint is None:
        return
    request = Request("GET", f"{endpoint.url.rstrip('/')}/models", endpoint.key, seconds=10)
    hint = f"is the server up, is its address right, and is {endpoint.key or 'a key'} one that it knows?"
    yield Check("model", request, lambda answer: _takes_the_key(answer, endpoint), hint)
    if isinstance(default, str):
        hint = "write one of those under settings.model.default, or have the server offer it"
        yield Check("model.offered", request, lambda answer: _offered(answer, default), hint, needs="model")


def _endpoint(settings: Mapping[str, Any]) -> Endpoint | None:
    """The server the settings name; None where it is one that Hermes knows by itself."""
    model = _section(settings, "model")
    name = str(model.get("provider", "")).removeprefix("custom:")
    provider = _section(settings, "providers").get(name)
    if isinstance(provider, dict) and isinstance(provider.get("base_url"), str):
        key = provider.get("key_env")
        return Endpoint(provider["base_url"], key if isinstance(key, str) else None)
    if name == "custom" and isinstance(model.get("base_url"), str):
        key = str(model.get("api_key", ""))
        return Endpoint(model["base_url"], key[2:-1] if key.startswith("${") else None)
    return None


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _takes_the_key(answer: Answer, endpoint: Endpoint) -> Verdict:
    key = f"with {endpoint.key}" if endpoint.key else "without a key"
    if answer.status == 200:
        return Verdict(True, f"{endpoint.url} answers {key}")
    refused = "refuses the key: " if answer.status in (401, 403) else ""
    return Verdict(False, f"{endpoint.url} {refused}answers {answer.status} {key}")


def _offered(answer: Answer, default: str) -> Verdict:
    try:
        offered = sorted(str(model["id"]) for model in answer.body["data"])
    except (KeyError, TypeError):
        return Verdict(True, "the server does not list its models")
    if default in offered:
        return Verdict(True, f"{default} is one of {len(offered)}")
    return Verdict(False, f"{default} is not offered; there is: {', '.join(offered) or 'none'}")
