"""The keys of agents of kind ``hermes``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from paddock.recipes.hermes import platforms
from paddock.recipes.hermes.connector_spec import ConnectorsSpec, MessengerSpec
from paddock.recipes.hermes.mcp_spec import McpServerSpec, ServerName
from paddock.recipes.packaged import PackagedSpec
from paddock.spec.agent import AgentSpec
from paddock.spec.fields import Model, Name, Port, no_items, no_keys, shorthand
from paddock.spec.secrets import Source
from paddock.spec.tree import Location

HOME: Final = ".hermes"  # Hermes' own folder in the agent's home
API_KEY: Final = "API_SERVER_KEY"  # the variable with the key of its API server


class Managed(StrEnum):
    STRICT = "strict"
    PINNED = "pinned"


class ProgramName(StrEnum):
    NODE = "node"
    UV = "uv"


class Skills(StrEnum):
    BUNDLED = "bundled"
    NONE = "none"


class DashboardSpec(Model):
    """The agent's web page, on loopback unless exposed; `paddock forward` opens it."""

    enabled: bool = Field(True, description="whether the web page is served; a plain true or false stands for this")
    port: Port = Field(9119, description="port of the web page")


class AuthSpec(Model):
    """OAuth credentials (auth.json), which the agent refreshes itself; written once."""

    source: Source = Field(alias="from", description="source of the whole auth.json")
    overwrite: bool = Field(
        False,
        description="whether `up` writes auth.json again if the agent has changed it; refreshed tokens are lost then",
    )


class HermesSpec(PackagedSpec):
    """Nous Research's Hermes Agent."""

    expanded: ClassVar[Mapping[str, str | None]] = {
        **PackagedSpec.expanded,
        "settings": "name it under secrets: and write ${NAME} (or key_env: NAME) here",
        "mcp_servers": "name it under secrets: and write ${NAME} here",
    }
    names_elsewhere: ClassVar[Mapping[str, str]] = {
        **AgentSpec.names_elsewhere,
        "authfile": "auth.from",
        "authfileforceoverwrite": "auth.overwrite",
        "addtosystempackages": "cli_on_path",
        "extradependencygroups": "extras",
        "extraplugins": "documents",
        "extrapythonpackages": "python_packages",
        "hermeshomefiles": "documents",
        "apikey": "secrets",
        "baseurl": "settings.providers",
        "compression": "settings.compression",
        "connectors.api": "connectors.api_server",
        "connectors.gateway": "connectors.api_server",
        "display": "settings.display",
        "memoryenabled": "settings.memory",
        "model": "settings.model",
        "plugins": "documents",
        "provider": "settings.model.provider",
        "providers": "settings.providers",
        "sandbox": "settings.terminal.backend",
        "soul": "documents",
        "terminal": "settings.terminal",
        "toolsets": "settings.toolsets",
    }
    not_keys: ClassVar[Mapping[str, str]] = {
        **AgentSpec.not_keys,
        "command": "agents of this kind have a command of their own; service: {args: […]} adds arguments to it",
        "bottoken": "a token is a secret: secrets: {TELEGRAM_BOT_TOKEN: {env: TELEGRAM_BOT_TOKEN}}",
        "token": "a token is a secret: secrets: {TELEGRAM_BOT_TOKEN: {env: TELEGRAM_BOT_TOKEN}}",
        "profiles": "an agent has one profile; write another agent under agents:, with its own user, port and state",
    }

    not_in_containers: ClassVar[Mapping[str, str]] = {
        "browser": "a browser needs namespaces for its pages, which engines do not allow; leave the container out"
    }
    decided_by_image: ClassVar[Mapping[str, str]] = {
        "package": "the image brings the code; remove this key, or write base: instead of image:",
        "extras": "the image brings its own extras; use an image that has these, or write base: instead of image:",
        "python_packages": "the image brings the code, and nothing is added to it; write base: instead of image:",
        "browser": "the image brings its own browser, or none; remove this key",
    }

    kind: Literal["hermes"] = Field(description="hermes")
    connectors: ConnectorsSpec = Field(ConnectorsSpec.model_construct(), description="the ways to talk to the agent")
    gateway: Name | None = Field(None, description="name of the model gateway: an agent of kind litellm in this file")
    mcp_servers: dict[ServerName, McpServerSpec] = Field(
        default_factory=no_keys, description="MCP servers with tools for the agent, by name"
    )
    auth: AuthSpec | None = Field(None, description="OAuth credentials (auth.json) for the first start")
    dashboard: Annotated[DashboardSpec, shorthand(DashboardSpec, "enabled", bool, example="true or {port: 9119}")] = (
        Field(DashboardSpec.model_construct(enabled=False), description="the agent's web page: true, or a mapping")
    )
    managed: Managed = Field(
        Managed.STRICT,
        strict=False,
        description="strict: only this file configures the agent; pinned: the agent may change other settings",
    )
    skills: Skills = Field(
        Skills.BUNDLED,
        strict=False,
        description="bundled: the agent gets the skills that Hermes has in its sources; none: it gets none of them",
    )
    browser: bool = Field(False, description="whether to install a browser (chromium) for its tools")
    programs: list[Annotated[ProgramName, Field(strict=False)]] = Field(
        default_factory=no_items,
        description="programs to install with the code, beside those that an MCP server needs: node (with npm and"
        " npx), uv (with uvx)",
    )
    cli_on_path: bool = Field(False, description="whether every account on the machine has the command `hermes`")

    @property
    def model_gateway(self) -> str | None:
        return self.gateway

    def messengers(self) -> dict[str, MessengerSpec]:
        """Return the enabled messengers that have users, by name."""
        found = {name: getattr(self.connectors, name) for name in platforms.PLATFORMS}
        return {name: messenger for name, messenger in found.items() if messenger is not None}

    def ports(self) -> dict[str, int]:
        ports = {"api_server": self.connectors.api_server.port}
        if self.dashboard.enabled:
            ports["dashboard"] = self.dashboard.port
        if self.connectors.webhook:
            ports["webhook"] = self.connectors.webhook.port
        listeners = {name: platforms.PLATFORMS[name].listener for name in self.messengers()}
        return ports | {name: _port(self, each) for name, each in listeners.items() if each}

    def port_key(self, port: str) -> Location:
        if port in platforms.PLATFORMS:
            return ("connectors", port)
        return ("dashboard", "port") if port == "dashboard" else ("connectors", port, "port")


def _port(agent: HermesSpec, listener: platforms.Listener) -> int:
    given = agent.environment.get(listener.port, "")
    return int(given) if given.isascii() and given.isdecimal() else listener.number
