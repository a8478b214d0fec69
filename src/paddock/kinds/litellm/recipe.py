"""The recipe of the LiteLLM proxy, and the keys of agents of its kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, ClassVar, Final, Literal

from pydantic import Field

from paddock.base.frozen import frozen
from paddock.file.kinds import FileView, Mistake
from paddock.file.models.fields import Port
from paddock.file.tree import Location
from paddock.kinds.checks import Check
from paddock.kinds.code import Distribution
from paddock.kinds.endpoints import Offer, named_in
from paddock.kinds.files import dump
from paddock.kinds.keeping import Traces
from paddock.kinds.packaged import PackagedRecipe, PackagedSpec
from paddock.kinds.workload import Answer, File, Page, Paths, Probes, Process, Request, Verdict, Workload

MASTER_KEY: Final = "LITELLM_MASTER_KEY"  # LiteLLM's own name for the key with all rights


class LitellmSpec(PackagedSpec):
    """The LiteLLM proxy, a model gateway: it serves many models at one address."""

    models_port: ClassVar[str | None] = "proxy"
    without_effect: ClassVar[Mapping[str, str]] = {
        "documents": "the proxy reads no documents; write what it should know under settings",
        "working_directory": "the proxy works in the agent's home and has no other directory",
    }

    kind: Literal["litellm"] = Field(description="litellm")
    port: Port = Field(4000, description="port of the proxy")

    def ports(self) -> dict[str, int]:
        return {"proxy": self.port}

    def port_key(self, port: str) -> Location:
        return ("port",)


_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PROOF: Final = """\
import importlib.metadata, sys
import litellm.proxy.proxy_cli
found = importlib.metadata.version("litellm")
sys.exit(None if found == sys.argv[1] else f"the code tree has litellm {found}, not {sys.argv[1]}")
"""


class Litellm(PackagedRecipe[LitellmSpec]):
    """The recipe of kind ``litellm``."""

    model = LitellmSpec
    package = "litellm"

    @property
    def locks(self) -> Traversable:
        return resources.files(__package__) / "locks"

    def validate(self, name: str, agent: LitellmSpec, file: FileView) -> Iterator[Mistake]:
        yield from super().validate(name, agent, file)
        if MASTER_KEY not in agent.secrets and not agent.environment_files:
            yield ("secrets",), f"needs {MASTER_KEY}: without it, everyone who can reach the proxy may use its models"

    def extras(self, agent: LitellmSpec) -> Sequence[str]:
        return ("proxy",)

    def proof(self, wanted: Distribution) -> Sequence[str]:
        return ("-c", _PROOF, wanted.version)

    def workload(self, agent: LitellmSpec, paths: Paths, tree: str) -> Workload:
        proxy = Process(
            name="proxy",
            argv=(
                *(f"{tree}/bin/python", "-m", "litellm.proxy.proxy_cli"),
                *("--config", f"{paths.etc}/litellm/config.yaml"),
                *("--host", agent.listens_on("proxy"), "--port", str(agent.port), "--telemetry", "False"),
                *agent.service.args,
            ),
            environment={
                "HOME": paths.home,
                # Use the model prices in the package; otherwise the proxy downloads them at every start.
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_MODE": "PRODUCTION",  # otherwise it reads a .env in the current directory
                **agent.environment,
            },
            directory=paths.home,
            stop_seconds=30,
            restart=agent.service.restart,
            restart_seconds=agent.service.restart_delay,
        )
        config = File("litellm/config.yaml", dump(_in_its_words(agent.settings)))
        reaches = named_in(agent.settings, agent.environment)
        return Workload(processes=(proxy,), files=(config,), directories=(), generated=(), reaches=reaches)

    def probes(self, agent: LitellmSpec, prompt: str, conversation: str) -> Probes:
        url, models = agent.url("proxy"), _models(agent.settings)
        return Probes(_alive(agent), _Prompt(url, models[0], prompt) if models else None)

    def checks(self, agent: LitellmSpec, name: str, paths: Paths) -> Sequence[Check]:
        wanted = frozenset(_models(agent.settings))
        request = Request("GET", f"{agent.url('proxy')}/v1/models", MASTER_KEY)
        hint = f"`paddock logs {name}` tells why"
        return (Check("models", request, lambda answer: _offered(answer, wanted), hint),)

    def traces(self, agent: LitellmSpec) -> Traces:
        return Traces(("/var/lib/litellm",))

    def offer(self, agent: LitellmSpec) -> Offer:
        return Offer("proxy", "/v1", MASTER_KEY)


def _in_its_words(value: Any) -> Any:
    """Return the settings with references ``${NAME}`` in LiteLLM's form ``os.environ/NAME``."""
    match value:
        case dict():
            return {key: _in_its_words(each) for key, each in value.items()}
        case list():
            return [_in_its_words(each) for each in value]
        case str() if reference := _REFERENCE.fullmatch(value):
            return f"os.environ/{reference[1]}"
        case _:
            return value


def _models(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the proxy's models, without patterns (names with a *)."""
    listed = settings.get("model_list") or []
    names = [str(entry["model_name"]) for entry in listed if isinstance(entry, dict) and "model_name" in entry]
    return [name for name in dict.fromkeys(names) if "*" not in name]


def _alive(agent: LitellmSpec) -> Page:
    """The proxy answers; the models are not asked."""
    return Page(f"{agent.url('proxy')}/health/liveliness")


@frozen
class _Prompt:
    """A model answers a prompt through the proxy."""

    url: str
    model: str
    text: str

    @property
    def request(self) -> Request:
        body = {"model": self.model, "messages": [{"role": "user", "content": self.text}]}
        return Request("POST", f"{self.url}/v1/chat/completions", MASTER_KEY, body=body, seconds=60)

    def judge(self, answer: Answer) -> Verdict:
        try:
            text = str(answer.body["choices"][0]["message"]["content"])
        except (KeyError, IndexError, TypeError):
            return Verdict(False, f"{self.model} answered {answer.status}: {_said(answer.body)}")
        return Verdict(answer.status == 200 and bool(text.strip()), f"{self.model}: {text}")


def _said(body: Any) -> str:
    """Return the error message in an answer."""
    try:
        return str(body["error"]["message"])
    except (KeyError, TypeError):
        return str(body)


def _offered(answer: Answer, wanted: frozenset[str]) -> Verdict:
    try:
        found = {str(model["id"]) for model in answer.body["data"]}
    except (KeyError, TypeError):
        return Verdict(False, f"/v1/models answered {answer.status}: {_said(answer.body)}")
    lacking = sorted(wanted - found)
    return Verdict(not lacking, f"lacks {', '.join(lacking)}" if lacking else f"offers {', '.join(sorted(found))}")
