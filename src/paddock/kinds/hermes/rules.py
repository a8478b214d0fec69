"""Rules for agents of kind ``hermes`` that the model cannot check."""

from __future__ import annotations

from collections.abc import Iterator

from paddock.file.kinds import FileView, Mistake
from paddock.file.models.agent import RuntimeName
from paddock.kinds.hermes import connectors, documents, mcp, settings, versions
from paddock.kinds.hermes.spec import DASHBOARD_LOGIN, HermesSpec, Managed, Skills

# The secrets that the dashboard needs when other machines can reach it.


def mistakes(name: str, agent: HermesSpec, file: FileView) -> Iterator[Mistake]:
    """Yield the location, relative to the agent, and the message of each mistake."""
    yield from _ports(agent)
    yield from _version(agent)
    yield from connectors.mistakes(agent)
    yield from _dashboard_login(agent)
    yield from settings.unnamed_variables(agent)
    yield from mcp.mistakes(agent)
    yield from documents.mistakes(agent, file.folder)
    yield from _code(agent)
    yield from _model_gateway(agent, file)
    if agent.cli_on_path:
        yield from _command(name, agent, file)


def _ports(agent: HermesSpec) -> Iterator[Mistake]:
    owners: dict[int, str] = {}
    for name, port in agent.ports().items():
        owner = owners.setdefault(port, name)
        if owner != name:
            yield agent.port_key(name), f"has the same port as {owner}: {port}"


def _version(agent: HermesSpec) -> Iterator[Mistake]:
    found = versions.version_of(agent)
    if found and found < versions.OLDEST:
        oldest = ".".join(map(str, versions.OLDEST))
        key = "version" if agent.version else "package"
        yield (key,), f"Hermes before {oldest} cannot pin settings; use {oldest} or a newer one"


def _dashboard_login(agent: HermesSpec) -> Iterator[Mistake]:
    lacking = [secret for secret in DASHBOARD_LOGIN if secret not in agent.secrets]
    if agent.dashboard.enabled and "dashboard" in agent.expose and lacking and not agent.environment_files:
        yield ("expose", "dashboard"), f"needs a login: {' and '.join(lacking)} under secrets"


def _code(agent: HermesSpec) -> Iterator[Mistake]:
    if agent.container.image and agent.skills is Skills.NONE:
        yield ("skills",), "the image brings its skills, and gives them to the agent; write base: instead of image:"
    wheel = agent.package is not None and agent.package.suffix == ".whl"
    if wheel and agent.skills is Skills.BUNDLED and "skills" in agent.model_fields_set:
        yield ("skills",), "a wheel has no skills; write a version, or a folder of sources as package"


def _model_gateway(agent: HermesSpec, file: FileView) -> Iterator[Mistake]:
    name = agent.model_gateway
    if name is None:
        return
    model_gateways = [other for other, each in file.agents.items() if each.models_port]
    if name not in model_gateways:
        known = f"there is {', '.join(model_gateways)}" if model_gateways else "there is none"
        kinds = " or ".join(kind for kind, each in file.kinds.items() if each.model.models_port)
        yield ("gateway",), f"{name!r} is not an agent of kind {kinds} in this file ({known})"
        return
    model = agent.settings.get("model")
    named = (model.get("default") or model.get("model")) if isinstance(model, dict) else model
    if not named and agent.managed is Managed.STRICT:
        yield ("gateway",), f"needs settings: {{model: {{default: MODEL}}}}, the name of a model of {name}"
    server = file.agents[name]
    if server.models_port in server.expose or not {agent.place, server.place} <= file.places.keys():
        return
    host = file.host(agent)
    if host is None or host != file.host(server):
        sentence = f"{name} is on another machine and listens on loopback only;"
        yield ("gateway",), f"{sentence} give it expose: {{{server.models_port}: {{}}}}"


def _command(name: str, agent: HermesSpec, file: FileView) -> Iterator[Mistake]:
    """Yield mistakes about the command `hermes` for every account on the machine."""
    if agent.runtime is RuntimeName.PROCESS:
        yield (
            ("cli_on_path",),
            "does not go with runtime process, whose agent belongs to the user who runs it; use `paddock exec`",
        )
    host = file.host(agent)
    owners = [
        other
        for other, each in file.agents.items()
        if isinstance(each, HermesSpec) and each.cli_on_path and each.enabled and file.host(each) == host
    ]
    if host is not None and agent.enabled and owners[0] != name:
        yield ("cli_on_path",), f"`hermes` is already the command of {owners[0]} on the same machine"
