"""Nous Research's Hermes Agent: its locked code, its gateway, and how to see that it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from paddock.recipes.checks import Check
from paddock.recipes.hermes import checks
from paddock.recipes.packaged import code_tree, distribution
from paddock.recipes.workload import (
    Answer,
    CodeTree,
    Distribution,
    File,
    ImageManners,
    Paths,
    Probes,
    Process,
    Request,
    Verdict,
    Workload,
)
from paddock.spec.models import HermesSpec

API_KEY: Final = "API_SERVER_KEY"

_DRAIN_SECONDS: Final = 60  # how long a stop waits for an answer in flight; Hermes' own default is not at all

# What a deployment decides and an agent's file need not repeat. Lazy installs and tirith would fetch code from the
# network at run time; Hermes' own respawn backoff would fight with the supervisor.
_ALWAYS: Final[dict[str, Any]] = {
    "_config_version": 33,
    "security": {"allow_lazy_installs": False, "tirith_enabled": False},
    "gateway": {"respawn_storm": {"max_starts": 0}},
    "agent": {"restart_drain_timeout": _DRAIN_SECONDS},
}


_BESIDE: Final = ("aiohttp",)  # its API server imports it, and its base package does not bring it
_MODULES: Final = {"mcp": ("mcp",), "messaging": ("telegram", "discord", "slack_bolt")}


def _extras(agent: HermesSpec) -> Iterator[str]:
    """The extras of its package that other parts of the file need."""
    talk = agent.connectors
    if talk.telegram or talk.discord or talk.slack:
        yield "messaging"
    if agent.mcp_servers:
        yield "mcp"


class Hermes:
    """The recipe of kind ``hermes``."""

    def packages(self, agent: HermesSpec) -> Sequence[str]:
        return tuple(agent.packages)

    def distribution(self, agent: HermesSpec, folder: Path) -> Distribution:
        return distribution(agent, "hermes-agent", folder, extras=_extras(agent), beside=_BESIDE)

    def code(self, agent: HermesSpec, folder: Path) -> CodeTree:
        wanted = self.distribution(agent, folder)
        here = resources.files(__package__)
        proof = (here / "proof.py").read_text(encoding="utf-8")
        modules = [module for extra in wanted.extras for module in _MODULES.get(extra, ())]
        return code_tree(
            wanted,
            here / "locks",
            folder,
            pythons=("3.11", "3.12", "3.13"),
            proof=("-c", proof, wanted.version, *_BESIDE, *modules),
        )

    def workload(self, agent: HermesSpec, paths: Paths, tree: str) -> Workload:
        hermes_home = f"{paths.home}/.hermes"
        port = agent.connectors.api_server.port
        environment = {
            "HOME": paths.home,
            "HERMES_HOME": hermes_home,
            "HERMES_MANAGED": "paddock",
            "HERMES_MANAGED_DIR": f"{paths.etc}/hermes",
            "HERMES_DISABLE_LAZY_INSTALLS": "1",
            "API_SERVER_ENABLED": "true",
            "API_SERVER_HOST": "127.0.0.1",
            "API_SERVER_PORT": str(port),
            **agent.environment,
        }
        gateway = Process(
            name="gateway",
            argv=(
                *(f"{tree}/bin/python", "-m", "hermes_cli.main", "gateway", "run", "--external-supervisor"),
                *agent.service.args,
            ),
            environment=environment,
            directory=paths.home,
            stop_seconds=_DRAIN_SECONDS + 15,
            clean_exits=(0, 1),  # SIGTERM ends it with 1
            fatal_exits=(78,),  # its configuration is unusable, or its port is taken
            restart=agent.service.restart,
            restart_seconds=agent.service.restart_delay,
        )
        return Workload(
            processes=(gateway,),
            files=(File("hermes/config.yaml", _yaml(_merged(_ALWAYS, agent.settings))),),
            # Managed mode does not make them itself, and fails without.
            directories=(
                ".hermes",
                *(f".hermes/{name}" for name in ("cron", "logs", "memories", "sessions")),
            ),
            generated=(API_KEY,),
            image=_official_image(agent),
        )

    def probes(self, agent: HermesSpec, prompt: str, conversation: str) -> Probes:
        url = f"http://127.0.0.1:{agent.connectors.api_server.port}"
        return Probes(health=_Health(url), prompt=_Prompt(url, prompt, conversation))

    def checks(self, agent: HermesSpec, name: str, paths: Paths) -> Sequence[Check]:
        hermes_home = f"{paths.home}/.hermes"
        messengers = (each for each in ("telegram", "discord", "slack") if getattr(agent.connectors, each))
        return (
            *checks.gateway(name, hermes_home, frozenset({"api_server", *messengers})),
            *checks.model(agent.settings),
            checks.databases(name, hermes_home),
        )


def _official_image(agent: HermesSpec) -> ImageManners:
    """The image upstream publishes: it starts as root, drops to the account it is told, and refuses to be another's."""
    return ImageManners(
        # Its own supervisor would restart the gateway behind the back of ours.
        argv=("gateway", "run", "--no-supervise", *agent.service.args),
        state={".hermes": "/opt/data"},
        home="/opt/data",
        uid="HERMES_UID",
        gid="HERMES_GID",
        own=("HOME", "HERMES_HOME"),
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
    text: str
    conversation: str

    @property
    def request(self) -> Request:
        message = {"role": "user", "content": self.text}
        body = {"model": "hermes-agent", "messages": [message], "stream": False}
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


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Both trees as one; where they meet, ``over`` wins."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        result[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _yaml(tree: dict[str, Any]) -> str:
    text = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump(tree, text)
    return text.getvalue()
