"""Checks of Hermes for `verify`. They read its files and ask its model, because its commands always exit with 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from paddock.recipes.checks import Attempt, Check, Databases, ReadFile
from paddock.recipes.hermes import model_server
from paddock.recipes.hermes.spec import HermesSpec
from paddock.recipes.workload import Answer, Request, Verdict
from paddock.visible import lines, one_line

_LONGEST: Final = 300  # characters about one connector, which the agent wrote


class Endpoint(NamedTuple):
    """The URL of a model server, and the variable with its key."""

    url: str
    key: str | None


def messaging(name: str, hermes_home: str, connectors: frozenset[str]) -> Iterator[Check]:
    """Yield checks of the messaging process and its connectors, from the state that the process writes."""
    state = ReadFile(f"{hermes_home}/gateway_state.json")
    logs = f"`paddock logs {name}` tells why"
    yield Check("gateway", state, _runs, logs)
    yield Check("connectors", state, lambda found: _connected(found, connectors), logs, needs="gateway", settles=True)


def _runs(found: Any) -> Verdict:
    if not isinstance(found, dict):
        return Verdict(False, "there is no gateway_state.json")
    reason = found.get("exit_reason")
    said = f"{found.get('gateway_state')}, {found.get('active_agents', 0)} active conversations"
    return Verdict(found.get("gateway_state") == "running", f"{said}; {reason}" if reason else said)


def refusals(hermes: str, refused: Sequence[Sequence[str]]) -> Check:
    """Check that commands which the agent may not use are refused; a command that is not refused prints its help."""
    script = """hermes=$1; shift
for words; do
    "$hermes" $words --help 2>&1 | grep -q "managed by paddock" || echo "$words"
done"""
    commands = [" ".join(words) for words in refused]
    attempt = Attempt(("sh", "-c", script, "paddock", hermes, *commands))
    hint = "its command or its configuration was changed: run `paddock cycle`"
    return Check("managed", attempt, lambda done: _refused(done, commands), hint)


def _refused(done: Mapping[str, Any], commands: Sequence[str]) -> Verdict:
    allowed = lines(str(done["out"]))
    if allowed or done["code"] != 0:
        return Verdict(False, f"not refused: {', '.join(allowed)}" if allowed else f"not tried: {done['err']}")
    return Verdict(True, f"refused: {', '.join(commands)}")


def pinned(scope: str, locked: Sequence[str]) -> Check:
    """Check that the agent can read but not change the pinned and the locked files, for an image with its own command.

    The start of the image gives some of them to the agent, and they have to be locked again afterwards.
    """
    script = """cd "$1" || exit
shift
for each in . config.yaml .env "$@"; do
    [ -r "$each" ] && [ ! -w "$each" ] || echo "$each"
done"""
    hint = (
        "run `paddock restart`, which locks the files again; if it fails again, the image is too old for Paddock,"
        " or the mounts of its container were changed (`paddock up --recreate`)"
    )
    attempt = Attempt(("sh", "-c", script, "paddock", scope, *locked))
    return Check("managed", attempt, lambda done: _pinned(done, scope), hint)


def _pinned(done: Mapping[str, Any], scope: str) -> Verdict:
    loose = lines(str(done["out"]))
    if loose or done["code"] != 0:
        return Verdict(False, f"not pinned in {scope}: {', '.join(loose)}" if loose else f"not tried: {done['err']}")
    return Verdict(True, f"pinned in {scope}; the command is that of the image")


def version(url: str, wanted: str) -> Check:
    """Check that an image brings the version that the file names. Hermes says it when it is asked for its health."""
    hint = "write the version that the image has, or an image of this version, then run `paddock up`"
    request = Request("GET", f"{url}/health", seconds=3)
    return Check("version", request, lambda answer: _version(answer, wanted), hint, quick=True)


def _version(answer: Answer, wanted: str) -> Verdict:
    found = str(answer.body.get("version", "")) if isinstance(answer.body, dict) else ""
    if not found:
        return Verdict(False, f"the image does not say its version, and the file says {wanted}")
    return Verdict(found == wanted, found if found == wanted else f"the image has {found}, and the file says {wanted}")


def profile(hermes_home: str) -> Check:
    """Check that no file selects another profile, for an image: its command would then use another home."""
    hint = f"remove {hermes_home}/active_profile and restart the agent; for another profile write another agent"
    return Check("profile", ReadFile(f"{hermes_home}/active_profile"), _default_profile, hint)


def _default_profile(found: Any) -> Verdict:
    name = str(found).strip() if found is not None else ""
    if name in ("", "default"):
        return Verdict(True, "the default one")
    return Verdict(False, f"{one_line(name, 80)}: at its next start Hermes uses another home, with another memory")


def dashboard(name: str, url: str) -> Iterator[Check]:
    """Yield checks that the web page answers, and that it reports a running agent."""
    logs = f"`paddock logs {name}` tells why"
    yield Check("dashboard", Request("GET", f"{url}/", seconds=5), _page, logs, settles=True)
    status = Request("GET", f"{url}/api/status", seconds=5)
    yield Check("dashboard.status", status, _status, logs, needs="dashboard", settles=True)


def _page(answer: Answer) -> Verdict:
    page = answer.status == 200 and "<html" in str(answer.body).lower()
    return Verdict(page, "the web page answers" if page else f"/ answered {answer.status} without a web page")


def _status(answer: Answer) -> Verdict:
    running = isinstance(answer.body, dict) and answer.body.get("gateway_running")
    return Verdict(
        bool(running),
        "the messaging process is running"
        if running
        else f"/api/status answered {answer.status}: no messaging process",
    )


def _connected(found: Any, wanted: frozenset[str]) -> Verdict:
    platforms: Mapping[str, Any] = (found.get("platforms") if isinstance(found, dict) else None) or {}
    states = {str(name): platform for name, platform in platforms.items() if isinstance(platform, dict)}
    # A connector that was removed from the file is still listed, as disconnected.
    left = {name for name, platform in states.items() if platform.get("state") == "disconnected"} - wanted
    told, well = [], True
    # The connectors of the file come first: the agent can write any number of others into its state.
    for name in (*sorted(wanted), *sorted(states.keys() - wanted - left)):
        platform = states.get(name, {"state": "not started"})
        reason = platform.get("error_message")
        told.append(one_line(f"{name} {platform.get('state')}" + (f" ({reason})" if reason else ""), _LONGEST))
        well = well and platform.get("state") == "connected"
    absent = sorted(wanted - states.keys())
    return Verdict(well, f"Hermes reports: {', '.join(told)}", _not_started(absent) if absent else None)


def _not_started(names: Sequence[str]) -> str:
    return (
        f"Hermes did not start {' and '.join(names)}: a variable that it needs is empty, its token looks like a"
        " placeholder (such as abc), or its package is not installed; the agent's log names the reason"
    )


_MAY_BE_WHOLE: Final = (
    "the disk may be full, or the file in use: free some space (or increase state.size) and verify again; "
    "the database itself may be intact"
)
# Words in SQLite's messages about damaged files, as opposed to a full disk or a file in use.
_DAMAGE: Final = ("malformed", "not a database", "***", "Tree ", "row ", "wrong # of entries", "missing from index")


def databases(name: str, hermes_home: str) -> Check:
    """Check the integrity of Hermes' SQLite databases."""
    hint = f"`paddock logs {name}` may show why; stop the agent and restore the file from a backup"
    return Check("databases", Databases(hermes_home, ("*.db", "kanban/boards/**/*.db")), _sound, hint)


def _sound(found: Mapping[str, str]) -> Verdict:
    broken = [f"{path}: {said}" for path, said in found.items() if said != "ok"]
    damaged = any(word in said for said in found.values() for word in _DAMAGE)
    return Verdict(
        not broken,
        "; ".join(broken) or f"{', '.join(found) or 'none yet'}: quick_check ok",
        # A database that could not be opened may be intact, so the hint does not suggest to replace it.
        None if damaged else _MAY_BE_WHOLE,
    )


def model(agent: HermesSpec) -> Iterator[Check]:
    """Yield checks that the model server, asked from the agent's machine, accepts the key and offers the model."""
    settings = model_server.completed(agent)
    short = settings.get("model")
    default = short if isinstance(short, str) else _section(settings, "model").get("default")
    endpoint = _endpoint(settings, model_server.key_of_hermes(agent))
    if endpoint is None:
        return
    keyless = endpoint.key is not None and not model_server.is_sure(agent, endpoint.key)
    request = Request("GET", f"{endpoint.url.rstrip('/')}/models", endpoint.key, seconds=10, keyless=keyless)
    needs = f"accepts {endpoint.key}" if endpoint.key else "needs no key"
    hint = f"check that the server runs at this address and {needs}"
    yield Check("model", request, lambda answer: _accepts_the_key(answer, endpoint), hint)
    if isinstance(default, str):
        hint = "write an offered model under settings.model.default, or add the model to the server"
        yield Check("model.offered", request, lambda answer: _offered(answer, default), hint, needs="model")


def _endpoint(settings: Mapping[str, Any], derived: str | None) -> Endpoint | None:
    """Return the model server in the settings; None if it is one of Hermes' built-in providers.

    ``derived`` is the variable with the key of a server that the settings name by its URL alone.
    """
    model = _section(settings, "model")
    name = str(model.get("provider", "")).removeprefix("custom:")
    provider = _section(settings, "providers").get(name)
    if isinstance(provider, dict) and isinstance(provider.get("base_url"), str):
        key = provider.get("key_env")
        return Endpoint(provider["base_url"], key if isinstance(key, str) else None)
    if model_server.is_named_by_url(settings) and model.get("provider") not in (None, "", "auto"):
        key = str(model.get("api_key", ""))
        return Endpoint(model["base_url"], key[2:-1] if key.startswith("${") else derived)
    return None


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _accepts_the_key(answer: Answer, endpoint: Endpoint) -> Verdict:
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
        return Verdict(True, f"{default} is one of {len(offered)} models")
    return Verdict(False, f"{default} is not offered; the server offers {', '.join(offered) or 'no models'}")
