"""Hermes' part of the file: its connectors, tools, web page, and what the file decides for it."""

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

    port: Port = Field(8642, description="port it listens on")
    cors_origins: list[Url] = Field(default_factory=list, description="web pages that may call it")
    model_name: str | None = Field(None, description="name it gives itself as a model")


def _user_id(value: object) -> str:
    if not isinstance(value, int | str) or isinstance(value, bool) or not str(value).strip():
        raise ValueError("must be an id: a number or a text")
    return str(value).strip()


UserId = Annotated[str, PlainValidator(_user_id), WithJsonSchema({"type": ["integer", "string"]})]


class MessengerSpec(Model):
    """A messenger; its bot's token is a secret of the agent."""

    allow: list[UserId] = Field(default_factory=list, description="who may talk to the agent: user ids")
    allow_all: bool = Field(False, description="whether everyone may; a decision to write down, never a default")
    home_channel: UserId | None = Field(None, description="where it speaks of its own accord")

    @model_validator(mode="after")
    def _someone_may_talk(self) -> Self:
        if self.allow and self.allow_all:
            raise ValueError("allow and allow_all contradict each other; keep one")
        if not self.allow and not self.allow_all:
            raise ValueError("say who may talk to the agent: allow: [USER_ID], or allow_all: true for everyone")
        return self


class TelegramSpec(MessengerSpec):
    """Telegram; the token is TELEGRAM_BOT_TOKEN."""

    endpoint: Url | None = Field(None, description="a Bot API server of your own, instead of Telegram's")


class ConnectorsSpec(Model):
    """The ways to talk to the agent."""

    api_server: ApiServerSpec = Field(ApiServerSpec(), description="its OpenAI-compatible API; always on")
    telegram: TelegramSpec | None = Field(None, description="Telegram, with the secret TELEGRAM_BOT_TOKEN")
    discord: MessengerSpec | None = Field(None, description="Discord, with the secret DISCORD_BOT_TOKEN")
    slack: MessengerSpec | None = Field(None, description="Slack, with the secrets SLACK_BOT_TOKEN and SLACK_APP_TOKEN")


class ToolChoice(Model):
    """Which tools of an MCP server the agent sees."""

    include: list[str] = Field(default_factory=list, description="only these")
    exclude: list[str] = Field(default_factory=list, description="all but these")


class McpServerSpec(Model):
    """An MCP server: a program beside the agent, or a URL."""

    command: str | None = Field(None, description="program to start")
    args: list[str] = Field(default_factory=list, description="its arguments")
    env: dict[str, str] = Field(default_factory=dict, description="its environment; ${NAME} takes a secret's value")
    url: Url | None = Field(None, description="server to connect to, instead of a program")
    headers: dict[str, str] = Field(default_factory=dict, description="HTTP headers; ${NAME} takes a secret's value")
    enabled: bool = Field(True, description="whether the agent uses it")
    timeout: Duration | None = Field(None, description="how long one call may take")
    connect_timeout: Duration | None = Field(None, description="how long connecting may take")
    tools: ToolChoice = Field(ToolChoice(), description="which of its tools the agent sees")

    @model_validator(mode="after")
    def _program_or_url(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server is either command: (a program) or url:")
        if self.url is None and self.headers:
            raise ValueError("headers go with a url")
        if self.command is None and (self.args or self.env):
            raise ValueError("args and env go with a command")
        return self


class DashboardSpec(Model):
    """The agent's web page, on loopback unless exposed; `paddock forward` reaches it."""

    enabled: bool = Field(True, description="whether it runs; a plain true or false stands for this")
    port: Port = Field(9119, description="port it listens on")


class AuthSpec(Model):
    """Credentials the agent refreshes by itself (auth.json), seeded once."""

    source: Source = Field(alias="from", description="where the first version comes from, whole")
    overwrite: bool = Field(
        False, description="whether it is put back whenever the agent is configured, and refreshed tokens are lost"
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
        "browser": "a browser puts its pages into namespaces of their own, which engines keep from it"
    }

    kind: Literal["hermes"] = Field(description="hermes")
    connectors: ConnectorsSpec = Field(ConnectorsSpec(), description="the ways to talk to it")
    gateway: Name | None = Field(None, description="an agent of kind litellm in this file that gives it models")
    mcp_servers: dict[str, McpServerSpec] = Field(default_factory=dict, description="tools it may use, by name")
    auth: AuthSpec | None = Field(None, description="OAuth credentials (auth.json) to begin with")
    dashboard: Annotated[DashboardSpec, shorthand(DashboardSpec, "enabled", bool, example="true or {port: 9119}")] = (
        Field(DashboardSpec(enabled=False), description="its web page: true, or a mapping")
    )
    managed: Managed = Field(
        Managed.STRICT,
        strict=False,
        description="strict: only this file configures it; pinned: only what this file sets is fixed",
    )
    browser: bool = Field(False, description="whether it gets a browser (chromium) for its tools")
    cli_on_path: bool = Field(False, description="whether `hermes` is a command for everyone on the machine")

    def ports(self) -> dict[str, int]:
        ports = {"api_server": self.connectors.api_server.port}
        return ports | ({"dashboard": self.dashboard.port} if self.dashboard.enabled else {})

    def port_key(self, port: str) -> Location:
        return ("dashboard", "port") if port == "dashboard" else ("connectors", port, "port")
