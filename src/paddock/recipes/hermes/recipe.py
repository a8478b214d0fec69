"""The recipe of Nous Research's Hermes Agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final

from paddock.recipes.checks import Check
from paddock.recipes.documents import beyond_home, working_directory
from paddock.recipes.hermes import (
    checks,
    connector_checks,
    connector_rules,
    connectors,
    documents,
    harmless,
    managed,
    mcp,
    programs,
    providers,
    settings,
    terminal,
    validate,
    versions,
)
from paddock.recipes.hermes.conversation import HermesConversation
from paddock.recipes.hermes.spec import HermesSpec, Managed, Skills
from paddock.recipes.model_gateway import ModelServer
from paddock.recipes.packaged import PackagedRecipe
from paddock.recipes.reaches import named_in
from paddock.recipes.workload import (
    Answer,
    Distribution,
    ImageContract,
    Keeping,
    Messages,
    Page,
    Paths,
    Probes,
    Process,
    Program,
    Request,
    SecretFile,
    Tool,
    Toolchain,
    Traces,
    Verdict,
    Workload,
)
from paddock.recipes.yaml import merged
from paddock.spec.agent import Restart
from paddock.spec.kinds import FileView, Mistake

_HOME: Final = ".hermes"

# Usual directories of Hermes' data, beside homes of accounts. The messaging process (`hermes gateway`) always writes
# gateway_state.json, also when its data is in another directory or in a container's volume.
_TRACES: Final = Traces(
    directories=("/opt/hermes", "/opt/data", "/var/lib/hermes", "/srv/hermes", "/data/hermes"),
    names=(_HOME, "gateway_state.json"),
    becomes=_HOME,
    known_by=("config.yaml", ".env", "state.db"),  # as `hermes import` recognises a backup
    variable="HERMES_HOME",
    programs=("hermes",),
    environment_file=".env",
    rebuilt=(f"{_HOME}/hermes-agent",),  # the code, where Hermes' own installer puts it
    wrappers=("hermes",),
    beside="_external",
)

API_KEY: Final = "API_SERVER_KEY"

# What starts by itself, lets others talk to the agent, or is a credential. Hermes reads settings from .env, config.yaml
# and gateway.json, and each profile is a home of its own.
_ACTING: Final = (
    *("cron", "hooks", "plugins", "scripts", "profiles", "active_profile", "processes.json", ".restart_*", ".update_*"),
    *("auth.json", "mcp-tokens", "mcp-installs", "*oauth*.json", "*token*.json", "honcho.json", "hindsight"),
    *("byterover", "pairing", "platforms", "whatsapp", "webhook_subscriptions.json"),
    *(".env", ".op.env", "config.yaml", "gateway.json"),
)
_KEEPING: Final = Keeping(
    rebuilt=(
        *(f"{_HOME}/{name}" for name in ("logs", "*_cache", "sandboxes", "bin", "checkpoints")),
        *(f"{_HOME}/{name}" for name in ("gateway.pid", "gateway.lock", "**/*.lock")),
        *(".npm", ".cache/uv"),  # packages that npx and uvx have fetched
    ),
    texts=tuple(f"{_HOME}/{name}" for name in ("SOUL.md", "memories/*.md", "skills/**/SKILL.md")),
    messages=Messages(f"{_HOME}/state.db", "SELECT count(*) FROM messages WHERE timestamp > ?"),
    required=(f"{_HOME}/state.db",),
    lasting=(f"{_HOME}/*.db",),
    acting=tuple(f"{_HOME}/{name}" for name in _ACTING),
)

_DRAIN_SECONDS: Final = 60  # how long a stop waits for an unfinished answer; Hermes' default is not to wait

# Settings of every agent. Lazy installs and tirith would download code at run time. Hermes' own respawn limit would
# conflict with the supervisor's.
_ALWAYS: Final[dict[str, Any]] = {
    "security": {"allow_lazy_installs": False, "tirith_enabled": False},
    "gateway": {"respawn_storm": {"max_starts": 0}},
    "agent": {"restart_drain_timeout": _DRAIN_SECONDS},
}


# The program with which its tools control a browser: a binary from an npm package, which needs no Node.
_BROWSER: Final = Tool(
    "agent-browser",
    version="0.41.0",
    sha512="5c9b41a2e139fa01942b2654d423929a7c54e8c2889662c4da81321f3974a212d53a1b918f1f64a90f6f3aac62896fc66ef8b824f1783b3efbecc9f714688700",
    files={
        "x86_64": "package/bin/agent-browser-linux-x64",
        "aarch64": "package/bin/agent-browser-linux-arm64",
    },
)
_PINS: Final = "hermes_cli.managed_scope"  # the launcher needs it; a wheel or sources may be of a version without it
_MODULES: Final = {
    "matrix": ("mautrix.client", "aiosqlite", "asyncpg", "aiohttp_socks"),
    "mcp": ("mcp",),
    "messaging": ("telegram", "discord", "slack_bolt"),
    "anthropic": ("anthropic",),
    "azure-identity": ("azure.identity",),
    "bedrock": ("boto3",),
    "vertex": ("google.auth",),
}


_CHROMIUM: Final = {"AGENT_BROWSER_EXECUTABLE_PATH": "/usr/bin/chromium"}


class Hermes(PackagedRecipe[HermesSpec]):
    """The recipe of kind ``hermes``."""

    model = HermesSpec
    package = "hermes-agent"
    beside = ("aiohttp",)  # its API server imports it, but the package does not depend on it
    without = ("python-olm",)  # the encryption of the extra `matrix`; it would have to be compiled with libolm

    @property
    def locks(self) -> Traversable:
        return resources.files(__package__) / "locks"

    def validate(self, name: str, agent: HermesSpec, file: FileView) -> Iterator[Mistake]:
        yield from super().validate(name, agent, file)
        yield from validate.mistakes(name, agent, file)

    def settings_mistakes(self, agent: HermesSpec, given: Mapping[str, Any]) -> Iterator[Mistake]:
        yield from settings.mistakes(agent, given)
        yield from connector_rules.in_settings(agent, given)

    def packages(self, agent: HermesSpec) -> Sequence[str]:
        return (*agent.packages, *(("chromium",) if agent.browser else ()))

    def recommended_packages(self, agent: HermesSpec) -> Sequence[str]:
        # Without ffmpeg (for voice messages): installing it takes as long as everything else, and 580 MB.
        return ("git", "ripgrep")

    def extras(self, agent: HermesSpec) -> Iterator[str]:
        yield from connectors.extras(agent)
        if mcp.servers(agent):
            yield "mcp"
        yield from providers.extras(agent)

    def proof(self, wanted: Distribution) -> Sequence[str]:
        program = (resources.files(__package__) / "proof.py").read_text(encoding="utf-8")
        modules = [module for extra in wanted.extras for module in _MODULES.get(extra, ())]
        return ("-c", program, wanted.version, _PINS, *self.beside, *modules)

    def tools(self, agent: HermesSpec) -> Sequence[Tool]:
        return (_BROWSER,) if agent.browser else ()

    def toolchains(self, agent: HermesSpec) -> Sequence[Toolchain]:
        return programs.toolchains(agent)

    def folders(self, agent: HermesSpec) -> Sequence[str]:
        # Hermes looks for them at the top of its venv, and copies new skills into its home when it starts.
        return ("skills", "optional-skills") if agent.skills is Skills.BUNDLED else ()

    def workload(self, agent: HermesSpec, paths: Paths, tree: str) -> Workload:
        directory, traits = working_directory(agent, paths), versions.traits(agent)
        places = {"HERMES_HOME": f"{paths.home}/{_HOME}", "HERMES_MANAGED_DIR": f"{paths.etc}/hermes"}
        pinned = {
            "HERMES_DISABLE_LAZY_INSTALLS": "1",
            **({"HERMES_MANAGED": "paddock"} if agent.managed is Managed.STRICT else {}),
            **connectors.environment(agent),
            **agent.environment,
        }
        ours = {"_config_version": traits.config_version, **_ALWAYS}
        given = terminal.with_directory(agent.settings, directory)
        config = merged(merged(ours, given), connectors.settings(agent))
        browser = _CHROMIUM if agent.browser else {}
        messaging = Process(
            name="gateway",
            argv=_hermes(paths, tree, "gateway", "run", *traits.run, *agent.service.args),
            environment={**_tools(paths), **traits.variables, **places, **pinned, **browser},
            directory=paths.home,
            stop_seconds=_drain_seconds(config) + 30,  # the reserve that Hermes recommends
            clean_exits=(0, 1),  # exits with 1 after SIGTERM
            fatal_exits=(78,),  # the configuration is unusable, or the port is in use
            # 75 requests a restart. 1 without a stop is a crash.
            restart_exits=(75, 1) if agent.service.restart is Restart.ON_FAILURE else (75,),
            restart=agent.service.restart,
            restart_seconds=agent.service.restart_delay,
            path=(f"{paths.etc}/bin", f"{paths.home}/.local/bin"),
            writable=beyond_home(agent, paths),
            browser=agent.browser,
        )
        # The package contains the web page; building it again would need npm and the network.
        address = ("--host", agent.listens_on("dashboard"), "--port", str(agent.dashboard.port))
        page = ("dashboard", *address, "--skip-build", "--no-open")
        dashboard = replace(
            messaging,
            name="dashboard",
            argv=_hermes(paths, tree, *page),
            stop_seconds=15,
            clean_exits=(0,),
            fatal_exits=(),
            restart_exits=(),
        )
        return Workload(
            processes=(messaging, dashboard) if agent.dashboard.enabled else (messaging,),
            files=(
                *managed.files(agent.managed, paths, tree, config, pinned),
                *((programs.shim(_BROWSER.name, tree),) if agent.browser else ()),
                *(programs.shims(agent, tree) if tree else ()),
            ),
            # In managed mode Hermes does not create its folders, and fails without them.
            directories=(
                *(f"{_HOME}/{name}" for name in ("cron", "logs", "memories", "sessions")),
                ".local/bin",
                agent.working_directory,
            ),
            generated=(API_KEY,),
            state_files=(
                *managed.state_files(agent.managed, _HOME, connectors.names(agent)),
                *documents.files(agent),
            ),
            secret_files=(
                (SecretFile(f"{_HOME}/auth.json", agent.auth.source, agent.auth.overwrite),) if agent.auth else ()
            ),
            programs=(
                (Program("hermes", managed.program(paths, tree), f"{tree}/bin/hermes"),) if agent.cli_on_path else ()
            ),
            image=_official_image(agent, paths, _drain_seconds(config)),
            reaches=(*named_in(config, agent.environment), *connectors.reaches(agent)),
        )

    def probes(self, agent: HermesSpec, prompt: str, conversation: str) -> Probes:
        url = agent.url("api_server")
        model = agent.connectors.api_server.model_name or "hermes-agent"
        return Probes(health=_Health(f"{url}/health"), prompt=_Prompt(url, model, prompt, conversation))

    def conversation(self, agent: HermesSpec) -> HermesConversation:
        return HermesConversation(agent.url("api_server"), API_KEY)

    def checks(self, agent: HermesSpec, name: str, paths: Paths) -> Sequence[Check]:
        hermes_home = f"{paths.home}/{_HOME}"
        if agent.image_brings_code:
            locked = managed.state_files(agent.managed, hermes_home, connectors.names(agent))
            managed_by_us = [
                checks.pinned(f"{paths.etc}/hermes", [file.path for file in locked]),
                checks.profile(hermes_home),
            ]
        else:
            managed_by_us = [checks.refusals(f"{paths.etc}/bin/hermes", _tried(agent))]
        version = str(agent.version) if agent.version and agent.image_brings_code else None
        return (
            *((checks.version(agent.url("api_server"), version),) if version else ()),
            *checks.messaging(name, hermes_home, frozenset(connectors.names(agent))),
            *connector_checks.proofs(agent),
            *mcp.checks(agent, name, hermes_home),
            *checks.model(agent.settings),
            checks.databases(name, hermes_home),
            *managed_by_us,
            *(checks.dashboard(name, agent.url("dashboard")) if agent.dashboard.enabled else ()),
        )

    def traces(self, agent: HermesSpec) -> Traces:
        return _TRACES

    def keeping(self, agent: HermesSpec) -> Keeping:
        return replace(_KEEPING, recalled=tuple(f"{_HOME}/memories/{name}" for name in harmless.recalled(agent)))

    def harmless(self, agent: HermesSpec, model: str | None, ports: Mapping[str, int]) -> HermesSpec:
        return harmless.copy(agent, list(self.extras(agent)), model, ports)

    def using(self, agent: HermesSpec, server: ModelServer) -> HermesSpec:
        # Hermes sends a key to a provider custom:NAME; to a plain `custom` it sends none.
        given = agent.settings.get("model") or {}
        model = given if isinstance(given, dict) else {"default": given}
        provider = {"base_url": server.url, "key_env": server.key, "default_model": model.get("default")}
        ours = {
            "model": {"provider": f"custom:{server.name}"},
            "providers": {server.name: {name: value for name, value in provider.items() if value}},
        }
        return agent.model_copy(update={"settings": merged(ours, {**agent.settings, "model": model})})


def _tried(agent: HermesSpec) -> list[Sequence[str]]:
    """Return one refused command of each group."""
    sorts = {words[0]: words for words in reversed(managed.refused(agent.managed))}
    return [sorts[word] for word in ("update", "uninstall", "gateway", "setup", "config") if word in sorts]


def _official_image(agent: HermesSpec, paths: Paths, drain_seconds: int) -> ImageContract:
    """Return how to run the official image, which starts as root and switches to the account in its variables."""
    state = "/opt/data"
    dashboard = {
        "HERMES_DASHBOARD": "1",
        "HERMES_DASHBOARD_HOST": agent.listens_on("dashboard"),
        "HERMES_DASHBOARD_PORT": str(agent.dashboard.port),
    }
    mounts = (mount.path for mount in agent.mounts if not mount.read_only)
    volumes = (volume.split(":")[1] for volume in agent.container.volumes if not volume.endswith(":ro"))
    return ImageContract(
        # Its own supervisor would restart the process without the runtime's knowledge.
        argv=("gateway", "run", "--no-supervise", *agent.service.args),
        state={_HOME: state},
        # The messaging process writes it at each start. By one from before, the image would start a second process.
        forgotten=(f"{state}/gateway_state.json",),
        home=state,
        uid="HERMES_UID",
        gid="HERMES_GID",
        own=("HOME", "HERMES_HOME"),
        environment={
            # Otherwise Hermes writes files in its own home only.
            "HERMES_WRITE_SAFE_ROOT": ":".join((state, paths.home, *mounts, *volumes)),
            # Otherwise its process 1 kills all others 3 seconds after it was told to stop.
            "S6_KILL_GRACETIME": str((drain_seconds + 15) * 1000),
            # Otherwise each start rewrites config.yaml, which is locked afterwards, and leaves a copy of it.
            **({"HERMES_SKIP_CONFIG_MIGRATION": "1"} if agent.managed is Managed.STRICT else {}),
            **(dashboard if agent.dashboard.enabled else {}),
        },
    )


@dataclass(frozen=True)
class _Health(Page):
    """The API server answers. This says nothing about the model behind it."""

    @property
    def request(self) -> Request:
        return Request("GET", self.url, seconds=3)

    def judge(self, answer: Answer) -> Verdict:
        found = answer.body if isinstance(answer.body, dict) else {}
        ok = answer.status == 200 and found.get("status") == "ok"
        return Verdict(ok, f"/health answered {answer.status}", version=str(found.get("version", "")))


@dataclass(frozen=True)
class _Prompt:
    """The agent answers a prompt with its model."""

    url: str
    model: str
    text: str
    conversation: str

    @property
    def request(self) -> Request:
        message = {"role": "user", "content": self.text}
        body = {"model": self.model, "messages": [message], "stream": False}
        # Hermes keeps the system prompt, with the memory, from the start of a session. Without a session id, equal
        # prompts belong to one session.
        headers = {"X-Hermes-Session-Id": self.conversation}
        return Request("POST", f"{self.url}/v1/chat/completions", API_KEY, headers, body, seconds=120)

    def judge(self, answer: Answer) -> Verdict:
        # An error of the model has status 200 too; `finish_reason` and the key `hermes` show it.
        try:
            choice = answer.body["choices"][0]
            text, reason = str(choice["message"]["content"]), choice["finish_reason"]
        except (KeyError, IndexError, TypeError):
            return Verdict(False, f"the API answered {answer.status}: {answer.body}")
        if reason == "error":
            return Verdict(False, f"its model failed: {text}")
        ok = answer.status == 200 and reason == "stop" and "hermes" not in answer.body and bool(text.strip())
        return Verdict(ok, text)


def _drain_seconds(config: Mapping[str, Any]) -> int:
    section = config.get("agent")
    seconds = section.get("restart_drain_timeout") if isinstance(section, dict) else None
    return int(seconds) if isinstance(seconds, int | float) else _DRAIN_SECONDS


def _hermes(paths: Paths, tree: str, *words: str) -> Sequence[str]:
    # Started by path: with `-m`, Python would import modules from the current directory, which the agent can write to.
    return (f"{tree}/bin/python", managed.command(paths), *words)


def _tools(paths: Paths) -> dict[str, str]:
    """Return variables so that pip, npm and uv install into the agent's home."""
    return {
        "HOME": paths.home,
        "NPM_CONFIG_PREFIX": f"{paths.home}/.local",
        "PIP_BREAK_SYSTEM_PACKAGES": "1",  # Debian's pip would refuse to install even for one user
    }
