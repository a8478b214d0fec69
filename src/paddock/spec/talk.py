"""How people and tools talk to an agent: connectors, MCP servers, the dashboard, and what is exposed."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from paddock.spec.durations import Duration
from paddock.spec.fields import IpAddress, Model, Port, Url


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


# The secrets the dashboard needs where others than the machine itself reach it.
DASHBOARD_LOGIN = ("HERMES_DASHBOARD_BASIC_AUTH_USERNAME", "HERMES_DASHBOARD_BASIC_AUTH_PASSWORD")

# The secrets each messenger needs.
TOKENS = {
    "telegram": ("TELEGRAM_BOT_TOKEN",),
    "discord": ("DISCORD_BOT_TOKEN",),
    "slack": ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"),
}


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


class ExposeSpec(Model):
    """A port that is reachable from beyond the machine."""

    port: Port | None = Field(None, description="without it the port of the process so named; a number stands for this")
    address: IpAddress = Field("0.0.0.0", description="address to listen on")  # noqa: S104  exposing is what it is for


class VerifySpec(Model):
    """What ``up`` asks the agent to see that it answers."""

    prompt: str = Field("Say ok.", min_length=1, description="the question")
    timeout: Duration = Field(Duration.parse("90s"), description="how long it may take to become healthy")
