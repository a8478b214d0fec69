"""Nous Research's Hermes Agent: its locked code, its gateway, and how to see that it answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from importlib.resources.abc import Traversable
from shlex import quote
from typing import Any, Final

from paddock.recipes.checks import Check
from paddock.recipes.documents import beyond_home, documents, working_directory
from paddock.recipes.hermes import checks, connectors, managed, settings, validate
from paddock.recipes.hermes.spec import HermesSpec, Managed
from paddock.recipes.hermes.yaml import merged
from paddock.recipes.model_gateway import ModelServer
from paddock.recipes.packaged import PackagedRecipe
from paddock.recipes.workload import (
    Answer,
    Distribution,
    File,
    ImageContract,
    Page,
    Paths,
    Probes,
    Process,
    Program,
    Request,
    SecretFile,
    Tool,
    Traces,
    Verdict,
    Workload,
)
from paddock.spec.agent import Restart
from paddock.spec.kinds import FileView, Mistake

# Where people have it: homes of accounts, its image's data directory, and directories of services. Every gateway, also
# one with its data elsewhere or in a container's volume, writes the file.
_TRACES: Final = Traces(
    directories=("/opt/hermes", "/opt/data", "/var/lib/hermes", "/srv/hermes", "/data/hermes"),
    names=(".hermes", "gateway_state.json"),
)

API_KEY: Final = "API_SERVER_KEY"

_HOME: Final = ".hermes"

_DRAIN_SECONDS: Final = 60  # how long a stop waits for an answer in flight; Hermes' own default is not at all

# What a deployment decides and an agent's file need not repeat. Lazy installs and tirith would fetch code from the
# network at run time; Hermes' own respawn backoff would fight with the supervisor.
_ALWAYS: Final[dict[str, Any]] = {
    "_config_version": 33,
    "security": {"allow_lazy_installs": False, "tirith_enabled": False},
    "gateway": {"respawn_storm": {"max_starts": 0}},
    "agent": {"restart_drain_timeout": _DRAIN_SECONDS},
}


# What its browser tools drive a browser with; as npm has it, without Node.
_BROWSER: Final = Tool(
    "agent-browser",
    version="0.41.0",
    sha512="5c9b41a2e139fa01942b2654d423929a7c54e8c2889662c4da81321f3974a212d53a1b918f1f64a90f6f3aac62896fc66ef8b824f1783b3efbecc9f714688700",
    files={
        "x86_64": "package/bin/agent-browser-linux-x64",
        "aarch64": "package/bin/agent-browser-linux-arm64",
    },
)
_MODULES: Final = {"mcp": ("mcp",), "messaging": ("telegram", "discord", "slack_bolt")}


_CHROMIUM: Final = {"AGENT_BROWSER_EXECUTABLE_PATH": "/usr/bin/chromium"}


class Hermes(PackagedRecipe[HermesSpec]):
    """The recipe of kind ``hermes``."""

    model = HermesSpec
    package = "hermes-agent"
    beside = ("aiohttp",)  # its API server imports it, and its base package does not bring it

    @property
    def locks(self) -> Traversable:
        return resources.files(__package__) / "locks"

    def validate(self, name: str, agent: HermesSpec, file: FileView) -> Iterator[Mistake]:
        yield from super().validate(name, agent, file)
        yield from validate.mistakes(name, agent, file)

    def settings_mistakes(self, agent: HermesSpec, given: Mapping[str, Any]) -> Iterator[Mistake]:
        return settings.mistakes(agent, given)

    def packages(self, agent: HermesSpec) -> Sequence[str]:
        return (*agent.packages, *(("chromium",) if agent.browser else ()))

    def recommended_packages(self, agent: HermesSpec) -> Sequence[str]:
        # ffmpeg, for voice messages, is not among them: it takes as long as all the rest, and 580 MB.
        return ("git", "ripgrep")

    def extras(self, agent: HermesSpec) -> Iterator[str]:
        if connectors.messengers(agent):
            yield "messaging"
        if agent.mcp_servers:
            yield "mcp"

    def proof(self, wanted: Distribution) -> Sequence[str]:
        program = (resources.files(__package__) / "proof.py").read_text(encoding="utf-8")
        modules = [module for extra in wanted.extras for module in _MODULES.get(extra, ())]
        return ("-c", program, wanted.version, *self.beside, *modules)

    def tools(self, agent: HermesSpec) -> Sequence[Tool]:
        return (_BROWSER,) if agent.browser else ()

    def workload(self, agent: HermesSpec, paths: Paths, tree: str) -> Workload:
        directory = working_directory(agent, paths)
        places = {"HERMES_HOME": f"{paths.home}/{_HOME}", "HERMES_MANAGED_DIR": f"{paths.etc}/hermes"}
        pinned = {
            "HERMES_DISABLE_LAZY_INSTALLS": "1",
            **({"HERMES_MANAGED": "paddock"} if agent.managed is Managed.STRICT else {}),
            **connectors.environment(agent),
            **agent.environment,
        }
        config = merged(merged({**_ALWAYS, "terminal": {"cwd": directory}}, agent.settings), connectors.settings(agent))
        gateway = Process(
            name="gateway",
            argv=_hermes(paths, tree, "gateway", "run", "--external-supervisor", *agent.service.args),
            environment={**_tools(paths), **places, **pinned, **(_CHROMIUM if agent.browser else {})},
            directory=paths.home,
            stop_seconds=_drain_seconds(config) + 30,  # what Hermes itself wants to have
            clean_exits=(0, 1),  # SIGTERM ends it with 1
            fatal_exits=(78,),  # its configuration is unusable, or its port is taken
            # It asks for a restart with 75. A 1 that nobody asked for is a crash.
            restart_exits=(75, 1) if agent.service.restart is Restart.ON_FAILURE else (75,),
            restart=agent.service.restart,
            restart_seconds=agent.service.restart_delay,
            path=(f"{paths.etc}/bin", f"{paths.home}/.local/bin"),
            writable=beyond_home(agent, paths),
            browser=agent.browser,
        )
        # Its page is in the package; building another one would take npm and the network.
        address = ("--host", agent.listens_on("dashboard"), "--port", str(agent.dashboard.port))
        page = ("dashboard", *address, "--skip-build", "--no-open")
        dashboard = replace(
            gateway,
            name="dashboard",
            argv=_hermes(paths, tree, *page),
            stop_seconds=15,
            clean_exits=(0,),
            fatal_exits=(),
            restart_exits=(),
        )
        return Workload(
            processes=(gateway, dashboard) if agent.dashboard.enabled else (gateway,),
            files=(
                *managed.files(agent.managed, paths, tree, config, pinned),
                *((_shim(_BROWSER.name, tree),) if agent.browser else ()),
            ),
            # Managed mode does not make its own itself, and fails without.
            directories=(
                *(f"{_HOME}/{name}" for name in ("cron", "logs", "memories", "sessions")),
                ".local/bin",
                agent.working_directory,
            ),
            generated=(API_KEY,),
            state_files=(
                *managed.state_files(agent.managed, _HOME, connectors.messengers(agent)),
                *documents(agent),
            ),
            secret_files=(
                (SecretFile(f"{_HOME}/auth.json", agent.auth.source, agent.auth.overwrite),) if agent.auth else ()
            ),
            programs=(
                (Program("hermes", managed.program(paths, tree), f"{tree}/bin/hermes"),) if agent.cli_on_path else ()
            ),
            image=_official_image(agent),
            health=Page(f"{agent.url('api_server')}/health"),
        )

    def probes(self, agent: HermesSpec, prompt: str, conversation: str) -> Probes:
        url = agent.url("api_server")
        model = agent.connectors.api_server.model_name or "hermes-agent"
        return Probes(health=_Health(url), prompt=_Prompt(url, model, prompt, conversation))

    def checks(self, agent: HermesSpec, name: str, paths: Paths) -> Sequence[Check]:
        hermes_home = f"{paths.home}/{_HOME}"
        if agent.container.image:
            managed_by_us = checks.pinned(f"{paths.etc}/hermes")
        else:
            managed_by_us = checks.refusals(f"{paths.etc}/bin/hermes", _tried(agent))
        return (
            *checks.gateway(name, hermes_home, frozenset({"api_server", *connectors.messengers(agent)})),
            *checks.model(agent.settings),
            checks.databases(name, hermes_home),
            managed_by_us,
            *(checks.dashboard(name, agent.url("dashboard")) if agent.dashboard.enabled else ()),
        )

    def traces(self, agent: HermesSpec) -> Traces:
        return _TRACES

    def using(self, agent: HermesSpec, server: ModelServer) -> HermesSpec:
        # A server with a key of its own is known to Hermes as custom:NAME; `custom` alone sends the key to nobody.
        given = agent.settings.get("model") or {}
        model = given if isinstance(given, dict) else {"default": given}
        provider = {"base_url": server.url, "key_env": server.key, "default_model": model.get("default")}
        ours = {
            "model": {"provider": f"custom:{server.name}"},
            "providers": {server.name: {name: value for name, value in provider.items() if value}},
        }
        return agent.model_copy(update={"settings": merged(ours, {**agent.settings, "model": model})})


def _tried(agent: HermesSpec) -> list[Sequence[str]]:
    """Of the commands that are refused, one of each sort."""
    sorts = {words[0]: words for words in reversed(managed.refused(agent.managed))}
    return [sorts[word] for word in ("update", "uninstall", "gateway", "setup", "config") if word in sorts]


def _official_image(agent: HermesSpec) -> ImageContract:
    """The image upstream publishes: it starts as root, drops to the account it is told, and refuses to be another's."""
    return ImageContract(
        # Its own supervisor would restart the gateway behind the back of ours.
        argv=("gateway", "run", "--no-supervise", *agent.service.args),
        state={".hermes": "/opt/data"},
        home="/opt/data",
        uid="HERMES_UID",
        gid="HERMES_GID",
        own=("HOME", "HERMES_HOME"),
        environment={"HERMES_DASHBOARD": "1"} if agent.dashboard.enabled else {},
    )


@dataclass(frozen=True)
class _Health:
    """The API server is up. Says nothing about the model behind it."""

    url: str

    @property
    def request(self) -> Request:
        return Request("GET", f"{self.url}/health", seconds=3)

    def judge(self, answer: Answer) -> Verdict:
        ok = answer.status == 200 and isinstance(answer.body, dict) and answer.body.get("status") == "ok"
        return Verdict(ok, f"/health answered {answer.status}")


@dataclass(frozen=True)
class _Prompt:
    """A prompt goes through the agent to its model and comes back."""

    url: str
    model: str
    text: str
    conversation: str

    @property
    def request(self) -> Request:
        message = {"role": "user", "content": self.text}
        body = {"model": self.model, "messages": [message], "stream": False}
        # Hermes keeps a session's system prompt, memory included, as it was when the session began; and without a name
        # the same words are the same session.
        headers = {"X-Hermes-Session-Id": self.conversation}
        return Request("POST", f"{self.url}/v1/chat/completions", API_KEY, headers, body, seconds=120)

    def judge(self, answer: Answer) -> Verdict:
        # A model that fails is still a 200 with the error as content; `finish_reason` and `hermes` tell it apart.
        try:
            choice = answer.body["choices"][0]
            text, reason = str(choice["message"]["content"]), choice["finish_reason"]
        except (KeyError, IndexError, TypeError):
            return Verdict(False, f"the API answered {answer.status}: {answer.body}")
        ok = answer.status == 200 and reason == "stop" and "hermes" not in answer.body and bool(text.strip())
        return Verdict(ok, text)


def _drain_seconds(config: Mapping[str, Any]) -> int:
    section = config.get("agent")
    seconds = section.get("restart_drain_timeout") if isinstance(section, dict) else None
    return int(seconds) if isinstance(seconds, int | float) else _DRAIN_SECONDS


def _hermes(paths: Paths, tree: str, *words: str) -> Sequence[str]:
    # By its path, and not `-m`: that would look for modules in the directory it starts in, which is the agent's.
    return (f"{tree}/bin/python", managed.command(paths), *words)


def _shim(name: str, tree: str) -> File:
    """A program of the tree beside the agent's own ones; the rest of the tree's is not for its PATH."""
    return File(f"bin/{name}", f'#!/bin/sh\nexec {quote(f"{tree}/bin/{name}")} "$@"\n', executable=True)


def _tools(paths: Paths) -> dict[str, str]:
    """Variables that put what the agent installs for itself (pip, npm, uv) into its home."""
    return {
        "HOME": paths.home,
        "NPM_CONFIG_PREFIX": f"{paths.home}/.local",
        "PIP_BREAK_SYSTEM_PACKAGES": "1",  # Debian's pip would not even install for one user
    }
