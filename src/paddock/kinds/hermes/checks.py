"""All checks of Hermes for `verify`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from paddock.base.text import counted, lines, one_line
from paddock.kinds.checks import Attempt, Check, Databases, LogLines, ReadFile
from paddock.kinds.hermes import connectors, managed, model_server
from paddock.kinds.hermes.mcp import enabled, servers
from paddock.kinds.hermes.platforms import PLATFORMS
from paddock.kinds.hermes.spec import DASHBOARD_LOGIN, HOME, HermesSpec, MatrixSpec, NtfySpec, section
from paddock.kinds.workload import Answer, Paths, Request, Verdict

_REDIRECTS: Final = (302, 303, 307)
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
    """Check that forbidden commands are refused. A command that is not refused prints its help."""
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
    """Check that an image brings the version that the file names. The answer about Hermes' health has it."""
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


def dashboard(name: str, url: str, *, login: bool) -> Iterator[Check]:
    """Yield checks that the web page answers, or sends to a login, and that it reports a running agent."""
    logs = f"`paddock logs {name}` tells why"
    yield Check("dashboard", Request("GET", f"{url}/", seconds=5), _login if login else _page, logs, settles=True)
    status = Request("GET", f"{url}/api/status", seconds=5)
    yield Check("dashboard.status", status, _status, logs, needs="dashboard", settles=True)


def _page(answer: Answer) -> Verdict:
    page = answer.status == 200 and "<html" in str(answer.body).lower()
    return Verdict(page, "the web page answers" if page else f"/ answered {answer.status} without a web page")


def _login(answer: Answer) -> Verdict:
    asks = answer.status in _REDIRECTS
    return Verdict(True, "the web page asks for a login") if asks else _page(answer)


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
    default = short if isinstance(short, str) else section(settings, "model").get("default")
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
    model = section(settings, "model")
    name = str(model.get("provider", "")).removeprefix("custom:")
    provider = section(settings, "providers").get(name)
    if isinstance(provider, dict) and isinstance(provider.get("base_url"), str):
        key = provider.get("key_env")
        return Endpoint(provider["base_url"], key if isinstance(key, str) else None)
    if model_server.is_named_by_url(settings) and model.get("provider") not in (None, "", "auto"):
        key = str(model.get("api_key", ""))
        return Endpoint(model["base_url"], key[2:-1] if key.startswith("${") else derived)
    return None


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


_REFUSED: Final = (401, 403)


def proofs(agent: HermesSpec) -> Iterator[Check]:
    """Yield a check for each connector whose server can be asked, from the agent's machine and with its secrets."""
    talk = agent.connectors
    if talk.matrix:
        yield _matrix(talk.matrix, token="MATRIX_ACCESS_TOKEN" in agent.secrets)
    if talk.ntfy and ("NTFY_TOKEN" in agent.secrets or not agent.environment_files):
        yield _ntfy(talk.ntfy, "NTFY_TOKEN" if "NTFY_TOKEN" in agent.secrets else None)
    if talk.homeassistant and "HASS_TOKEN" in agent.secrets and "HASS_URL" in agent.environment:
        yield _with_token("homeassistant", agent.environment["HASS_URL"], "/api/", "HASS_TOKEN")
    for name in agent.messengers():
        proof = PLATFORMS[name].proof
        if proof and proof[0] in agent.environment and proof[2] in agent.secrets:
            yield _with_token(name, agent.environment[proof[0]], proof[1], proof[2])
    if talk.webhook:
        yield from (_webhook(agent.url("webhook"), route) for route in talk.webhook.routes)


def _matrix(matrix: MatrixSpec, *, token: bool) -> Check:
    server = matrix.homeserver.rstrip("/")
    if not token:
        return Check(
            "connectors.matrix",
            Request("GET", f"{server}/_matrix/client/versions"),
            lambda answer: _answers(answer, server, "is a homeserver; MATRIX_PASSWORD was not tried"),
            "check that connectors.matrix.homeserver is the address of a homeserver",
        )

    def judge(answer: Answer) -> Verdict:
        user = answer.body.get("user_id") if isinstance(answer.body, dict) else None
        if answer.status == 200 and matrix.user_id and user != matrix.user_id:
            return Verdict(False, f"MATRIX_ACCESS_TOKEN belongs to {one_line(str(user), 300)}, not to {matrix.user_id}")
        return _answers(answer, server, f"accepts MATRIX_ACCESS_TOKEN as {one_line(str(user), 300)}")

    request = Request("GET", f"{server}/_matrix/client/v3/account/whoami", "MATRIX_ACCESS_TOKEN")
    return Check("connectors.matrix", request, judge, "check connectors.matrix and the secret MATRIX_ACCESS_TOKEN")


def _ntfy(ntfy: NtfySpec, token: str | None) -> Check:
    # Hermes reports ntfy as connected before it has asked the server. A poll ends at once.
    server = ntfy.server.rstrip("/")
    request = Request("GET", f"{server}/{ntfy.topic}/json?poll=1&since=1s", token, login=True)
    with_token = f" with {token}" if token else ""
    return Check(
        "connectors.ntfy",
        request,
        lambda answer: _answers(answer, server, f"lets the agent read its topic{with_token}; no answer was published"),
        "check connectors.ntfy and the secret NTFY_TOKEN; the server's log tells more",
    )


def _with_token(name: str, url: str, path: str, token: str) -> Check:
    server = url.rstrip("/")
    return Check(
        f"connectors.{name}",
        Request("GET", f"{server}{path}", token),
        lambda answer: _answers(answer, server, f"accepts {token}"),
        f"check the address of the server and the secret {token}",
    )


def _answers(answer: Answer, server: str, proved: str) -> Verdict:
    if answer.status == 200:
        return Verdict(True, f"{server} {proved}")
    refused = "refuses the agent: it " if answer.status in _REFUSED else ""
    return Verdict(False, f"{server} {refused}answers {answer.status}, whatever Hermes reports")


def _webhook(url: str, route: str) -> Check:
    """Check that a route is there and does not accept a message without a signature."""

    def judge(answer: Answer) -> Verdict:
        if answer.status in _REFUSED:
            return Verdict(True, f"/webhooks/{route} refuses a message without a signature; a signed one was not sent")
        return Verdict(False, f"/webhooks/{route} answered {answer.status} to a message without a signature, not 401")

    return Check(
        f"connectors.webhook.{route}",
        Request("POST", f"{url}/webhooks/{route}", body=()),  # a list fails even where no signature is needed
        judge,
        "its secret may be INSECURE_NO_AUTH, or another program listens there; write a random secret and run `up`",
        settles=True,
    )


# Hermes' lines in logs/agent.log (tools/mcp_tool.py). Nothing else shows whether a server is connected.
_REGISTERED: Final = re.compile(r"MCP server '([^']+)' \(\w+\): registered (\d+) tool\(s\): ?(.*)")
# Hermes does not say whether this succeeded; it does say if it failed.
_TRIED_AGAIN: Final = re.compile(r"MCP server '([^']+)': attempting revival")
_FAILED: Final = (
    re.compile(r"Failed to connect to MCP server '([^']+)'(?: \(command=[^)]*\))?: (.*)"),
    re.compile(r"Skipping suspicious MCP server '([^']+)': (.*)"),
    re.compile(r"MCP server '([^']+)' (failed .*)"),
)
_WORDS: Final = ("MCP server '",)
_MOST_TOOLS: Final = 20  # names in the evidence


def of_mcp_servers(agent: HermesSpec, name: str, hermes_home: str) -> Iterator[Check]:
    """Yield a check of the agent's log, since its process was started, for each enabled server."""
    log = LogLines(f"{hermes_home}/logs/agent.log", _WORDS)
    for server, given in servers(agent).items():
        if enabled(given):
            yield Check(f"mcp.{server}", log, partial(_mcp_connected, server), _hint(name, server, given), settles=True)


def _hint(agent: str, server: str, given: Mapping[str, Any]) -> str:
    login = f"`paddock exec {agent} -- hermes mcp login {server}` logs in; " if given.get("auth") else ""
    again = f"`paddock exec {agent} -- hermes mcp test {server}` tries it again"
    return login + again + ("; logs/mcp-stderr.log in Hermes' home has its output" if given.get("command") else "")


def _mcp_connected(server: str, found: Mapping[str, Any]) -> Verdict:
    verdicts = [verdict for line in found["lines"] if (verdict := _said(str(line), server))]
    if verdicts:
        return verdicts[-1]
    if not found["whole"]:
        return Verdict(False, "the agent's log no longer has the lines of its last start", unknown=True)
    return Verdict(False, "the agent's log says nothing about it since its last start")


def _said(line: str, server: str) -> Verdict | None:
    """Return the verdict of one log line on a server. The agent's account can write such lines too."""
    if (registered := _REGISTERED.search(line)) and registered[1] == server:
        return _tools(int(registered[2]), [tool for tool in registered[3].split(", ") if tool])
    if (tried := _TRIED_AGAIN.search(line)) and tried[1] == server:
        return Verdict(False, "the agent's log says that it was lost and is tried again", unknown=True)
    for pattern in _FAILED:
        if (failed := pattern.search(line)) and failed[1] == server:
            return Verdict(False, f"the agent's log says: {failed[2]}")
    return None


def _tools(number: int, names: Sequence[str]) -> Verdict:
    if number == 0:
        hint = "the server offers none, or `tools:` in the file excludes all of them"
        return Verdict(False, "the agent's log says: connected, without a tool", hint)
    more = f" and {len(names) - _MOST_TOOLS} more" if len(names) > _MOST_TOOLS else ""
    some = ", ".join(names[:_MOST_TOOLS])
    return Verdict(True, f"the agent's log says: connected, {counted(number, 'tool')}: {some}{more}")


def every_check(agent: HermesSpec, name: str, paths: Paths) -> Sequence[Check]:
    """Return all checks of an agent."""
    hermes_home = f"{paths.home}/{HOME}"
    login = agent.secrets.keys() >= set(DASHBOARD_LOGIN)
    if agent.image_brings_code:
        locked = managed.state_files(agent.managed, hermes_home, connectors.names(agent))
        managed_by_us = [
            pinned(f"{paths.etc}/hermes", [file.path for file in locked]),
            profile(hermes_home),
        ]
    else:
        managed_by_us = [refusals(f"{paths.etc}/bin/hermes", _tried(agent))]
    in_image = str(agent.version) if agent.version and agent.image_brings_code else None
    return (
        *((version(agent.url("api_server"), in_image),) if in_image else ()),
        *messaging(name, hermes_home, frozenset(connectors.names(agent))),
        *proofs(agent),
        *of_mcp_servers(agent, name, hermes_home),
        *model(agent),
        databases(name, hermes_home),
        *managed_by_us,
        *(dashboard(name, agent.url("dashboard"), login=login) if agent.dashboard.enabled else ()),
    )


def _tried(agent: HermesSpec) -> list[Sequence[str]]:
    """Return one refused command of each group."""
    sorts = {words[0]: words for words in reversed(managed.refused(agent.managed))}
    return [sorts[word] for word in ("update", "uninstall", "gateway", "setup", "config") if word in sorts]
