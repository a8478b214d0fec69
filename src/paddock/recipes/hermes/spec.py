"""The keys of agents of kind ``hermes``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from paddock.recipes.packaged import PackagedSpec
from paddock.spec.agent import AgentSpec
from paddock.spec.durations import Duration
from paddock.spec.fields import Model, Name, Port, Url, shorthand
from paddock.spec.secrets import Source
from paddock.spec.tree import Location


class Managed(StrEnum):
    STRICT = "strict"
    PINNED = "pinned"


class ApiServerSpec(Model):
    """The agent's OpenAI-compatible API, on loopback unless exposed."""

    port: Port = Field(8642, description="port of the API")
    cors_origins: list[Url] = Field(default_factory=list, description="origins of web pages that may call the API")
    model_name: str | None = Field(None, description="name of the agent as a model in the API")


def _user_id(value: object) -> str:
    if not isinstance(value, int | str) or isinstance(value, bool) or not str(value).strip():
        raise ValueError("must be a user id: a number or a text")
    return str(value).strip()


UserId = Annotated[str, PlainValidator(_user_id), WithJsonSchema({"type": ["integer", "string"]})]


class MessengerSpec(Model):
    """A messenger; the token of its bot is a secret of the agent."""

    allow: list[UserId] = Field(default_factory=list, description="ids of the users who may talk to the agent")
    allow_all: bool = Field(False, description="whether everyone may talk to the agent")
    home_channel: UserId | None = Field(None, description="channel for messages that the agent sends unasked")

    @model_validator(mode="after")
    def _someone_may_talk(self) -> Self:
        if self.allow and self.allow_all:
            raise ValueError("allow and allow_all contradict each other; keep one")
        if not self.allow and not self.allow_all:
            raise ValueError("say who may talk to the agent: allow: [USER_ID], or allow_all: true for everyone")
        return self


class TelegramSpec(MessengerSpec):
    """Telegram; the token is TELEGRAM_BOT_TOKEN."""

    endpoint: Url | None = Field(None, description="URL of your own Bot API server, instead of Telegram's")


class ConnectorsSpec(Model):
    """The ways to talk to the agent: its API and messengers."""

    api_server: ApiServerSpec = Field(ApiServerSpec(), description="the agent's OpenAI-compatible API; always enabled")
    telegram: TelegramSpec | None = Field(None, description="Telegram, with the secret TELEGRAM_BOT_TOKEN")
    discord: MessengerSpec | None = Field(None, description="Discord, with the secret DISCORD_BOT_TOKEN")
    slack: MessengerSpec | None = Field(None, description="Slack, with the secrets SLACK_BOT_TOKEN and SLACK_APP_TOKEN")


class ToolChoice(Model):
    """The tools of an MCP server that the agent may use."""

    include: list[str] = Field(default_factory=list, description="only these")
    exclude: list[str] = Field(default_factory=list, description="all but these")


class McpServerSpec(Model):
    """An MCP server: a program on the agent's machine, or a URL."""

    command: str | None = Field(None, description="program to start")
    args: list[str] = Field(default_factory=list, description="arguments of the program")
    env: dict[str, str] = Field(
        default_factory=dict, description="environment of the program; ${NAME} is replaced by a secret's value"
    )
    url: Url | None = Field(None, description="URL of the server, instead of a program")
    headers: dict[str, str] = Field(
        default_factory=dict, description="HTTP headers; ${NAME} is replaced by a secret's value"
    )
    enabled: bool = Field(True, description="whether the agent uses the server")
    timeout: Duration | None = Field(None, description="timeout of one call")
    connect_timeout: Duration | None = Field(None, description="timeout of the connection")
    tools: ToolChoice = Field(ToolChoice(), description="which tools of the server the agent may use")

    @model_validator(mode="after")
    def _program_or_url(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server needs either command: (a program) or url:")
        if self.url is None and self.headers:
            raise ValueError("headers need url:")
        if self.command is None and (self.args or self.env):
            raise ValueError("args and env need command:")
        return self


class DashboardSpec(Model):
    """The agent's web page, on loopback unless exposed; `paddock forward` opens it."""

    enabled: bool = Field(True, description="whether the web page is served; a plain true or false stands for this")
    port: Port = Field(9119, description="port of the web page")


class AuthSpec(Model):
    """OAuth credentials (auth.json), which the agent refreshes itself; written once."""

    source: Source = Field(alias="from", description="source of the whole auth.json")
    overwrite: bool = Field(
        False,
        description="whether each configuration of the agent writes auth.json again; refreshed tokens are lost then",
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
    }

    not_in_containers: ClassVar[Mapping[str, str]] = {
        "browser": "a browser needs namespaces for its pages, which engines do not allow; leave the container out"
    }
    decided_by_image: ClassVar[Mapping[str, str]] = {
        "package": "the image brings the code; remove this key, or write base: instead of image:",
        "extras": "the image brings its own extras; use an image that has these, or write base: instead of image:",
        "browser": "the image brings its own browser, or none; remove this key",
    }

    kind: Literal["hermes"] = Field(description="hermes")
    connectors: ConnectorsSpec = Field(ConnectorsSpec(), description="the ways to talk to the agent")
    gateway: Name | None = Field(None, description="name of the model gateway: an agent of kind litellm in this file")
    mcp_servers: dict[str, McpServerSpec] = Field(
        default_factory=dict, description="MCP servers with tools for the agent, by name"
    )
    auth: AuthSpec | None = Field(None, description="OAuth credentials (auth.json) for the first start")
    dashboard: Annotated[DashboardSpec, shorthand(DashboardSpec, "enabled", bool, example="true or {port: 9119}")] = (
        Field(DashboardSpec(enabled=False), description="the agent's web page: true, or a mapping")
    )
    managed: Managed = Field(
        Managed.STRICT,
        strict=False,
        description="strict: only this file configures the agent; pinned: the agent may change other settings",
    )
    browser: bool = Field(False, description="whether to install a browser (chromium) for its tools")
    cli_on_path: bool = Field(False, description="whether every account on the machine has the command `hermes`")

    @property
    def model_gateway(self) -> str | None:
        return self.gateway

    def ports(self) -> dict[str, int]:
        ports = {"api_server": self.connectors.api_server.port}
        return ports | ({"dashboard": self.dashboard.port} if self.dashboard.enabled else {})

    def port_key(self, port: str) -> Location:
        return ("dashboard", "port") if port == "dashboard" else ("connectors", port, "port")
