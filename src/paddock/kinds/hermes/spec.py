"""The keys of agents of kind ``hermes``, with their connectors and MCP servers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from paddock.file.models.agent import AgentSpec
from paddock.file.models.fields import (
    AbsolutePath,
    Model,
    Name,
    Port,
    Url,
    VariableName,
    no_items,
    no_keys,
    shorthand,
    worded,
)
from paddock.file.models.quantities import Duration
from paddock.file.secrets.sources import Source
from paddock.file.tree import Location
from paddock.kinds.hermes import platforms
from paddock.kinds.hermes.platforms import PLATFORMS, REFUSED
from paddock.kinds.packaged import PackagedSpec


class ApiServerSpec(Model):
    """The agent's OpenAI-compatible API, on loopback unless exposed."""

    port: Port = Field(8642, description="port of the API")
    cors_origins: list[Url] = Field(default_factory=no_items, description="origins of web pages that may call the API")
    model_name: str | None = Field(None, description="name of the agent as a model in the API")


def _user_id(value: object) -> str:
    if not isinstance(value, int | str) or isinstance(value, bool) or not str(value).strip():
        raise ValueError("must be a user id: a number or a text")
    if "," in str(value) or str(value).strip() == "*":
        raise ValueError("must be one user id; for everyone write allow_all: true")
    return str(value).strip()


UserId = Annotated[str, PlainValidator(_user_id), WithJsonSchema({"type": ["integer", "string"]})]
MatrixUser = Annotated[str, Field(pattern=worded(r"^@[^\s:,]+:[^\s,]+$", "a Matrix user: @name:server"))]
Topic = Annotated[
    str, Field(pattern=worded(r"^[A-Za-z0-9_-]{1,64}$", "an ntfy topic: at most 64 letters, digits, _ and -"))
]
RouteName = Annotated[
    str, Field(pattern=worded(r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", "the name of a route: letters, digits, _ . and -"))
]


class MessengerSpec(Model):
    """A messenger. Its tokens are secrets of the agent, other variables of Hermes are in its environment."""

    allow: list[UserId] = Field(default_factory=no_items, description="ids of the users who may talk to the agent")
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


class MatrixSpec(MessengerSpec):
    """Matrix, in rooms without encryption. The secret is MATRIX_ACCESS_TOKEN, or MATRIX_PASSWORD with `user_id`."""

    homeserver: Url = Field(description="URL of the homeserver")
    user_id: MatrixUser | None = Field(None, description="the agent's own user; needed with a password")


class NtfySpec(Model):
    """One topic of ntfy. It has no users: whoever may publish to the topic may talk to the agent."""

    topic: Topic = Field(description="topic that the agent reads; as hard to guess as a password on a public server")
    server: Url = Field("https://ntfy.sh", description="URL of the server; its token is the secret NTFY_TOKEN")
    publish_topic: Topic | None = Field(None, description="topic of the answers; without it the same topic")


class RouteSpec(Model):
    """A path of the webhook, and the task that a signed message to it starts."""

    secret_env: VariableName | None = Field(
        None, description="name, under secrets, of the secret that signs its messages; without it WEBHOOK_SECRET"
    )
    prompt: str = Field(
        "", description="prompt for the agent; {field} is replaced by a field of the message; without it all fields"
    )
    events: list[str] = Field(default_factory=no_items, description="types of events to accept; without it all")
    skills: list[str] = Field(default_factory=no_items, description="skills to use for the prompt")
    deliver: str = Field("log", description="the answer's destination: log, github_comment, or another connector")
    deliver_extra: dict[str, str] = Field(
        default_factory=no_keys, description="more about the destination, like chat_id of a messenger"
    )
    deliver_only: bool = Field(False, description="whether the prompt itself is delivered, without asking the agent")


class WebhookSpec(Model):
    """Signed messages over HTTP, at /webhooks/ROUTE; on loopback unless exposed. Who has the secret may talk."""

    port: Port = Field(8644, description="port of the webhook")
    rate_limit: int = Field(30, ge=1, description="most messages per route and minute")
    routes: dict[RouteName, RouteSpec] = Field(min_length=1, description="paths of the webhook, by name")


class HomeAssistantSpec(Model):
    """Changes of states in Home Assistant; the token is HASS_TOKEN, the URL is HASS_URL. It has no users."""

    watch: list[str] = Field(
        min_length=1, description="entities (light.kitchen) and domains (light) whose changes reach the agent"
    )


def _messenger(label: str, name: str) -> Any:
    *others, last = PLATFORMS[name].needs
    return Field(None, description=f"{label}; it needs {', '.join(others)}{' and ' if others else ''}{last}")


class ConnectorsSpec(Model):
    """The ways to talk to the agent: its API and messengers."""

    api_server: ApiServerSpec = Field(
        ApiServerSpec.model_construct(), description="the agent's OpenAI-compatible API; always enabled"
    )
    telegram: TelegramSpec | None = _messenger("Telegram", "telegram")
    discord: MessengerSpec | None = _messenger("Discord", "discord")
    slack: MessengerSpec | None = _messenger("Slack", "slack")
    matrix: MatrixSpec | None = Field(None, description="Matrix; it needs MATRIX_ACCESS_TOKEN or MATRIX_PASSWORD")
    ntfy: NtfySpec | None = Field(None, description="ntfy; it needs NTFY_TOKEN if the server wants one")
    webhook: WebhookSpec | None = Field(
        None, description="messages over HTTP; they need WEBHOOK_SECRET or a secret for each route"
    )
    homeassistant: HomeAssistantSpec | None = Field(
        None, description="Home Assistant; it needs HASS_URL and HASS_TOKEN"
    )
    mattermost: MessengerSpec | None = _messenger("Mattermost", "mattermost")
    signal: MessengerSpec | None = _messenger("Signal, by the HTTP server of signal-cli", "signal")
    irc: MessengerSpec | None = _messenger("IRC", "irc")
    email: MessengerSpec | None = _messenger("mail", "email")
    sms: MessengerSpec | None = _messenger("SMS, by Twilio", "sms")
    whatsapp_cloud: MessengerSpec | None = _messenger("WhatsApp, by its Business API", "whatsapp_cloud")
    simplex: MessengerSpec | None = _messenger("SimpleX", "simplex")
    bluebubbles: MessengerSpec | None = _messenger("iMessage, by BlueBubbles", "bluebubbles")
    line: MessengerSpec | None = _messenger("LINE", "line")
    teams: MessengerSpec | None = _messenger("Microsoft Teams", "teams")
    dingtalk: MessengerSpec | None = _messenger("DingTalk", "dingtalk")
    feishu: MessengerSpec | None = _messenger("Feishu or Lark", "feishu")
    wecom: MessengerSpec | None = _messenger("WeCom", "wecom")
    wecom_callback: MessengerSpec | None = _messenger("WeCom, by callbacks", "wecom_callback")
    weixin: MessengerSpec | None = _messenger("Weixin (WeChat)", "weixin")
    qqbot: MessengerSpec | None = _messenger("QQ", "qqbot")
    yuanbao: MessengerSpec | None = _messenger("Yuanbao", "yuanbao")

    @model_validator(mode="before")
    @classmethod
    def _can_work(cls, data: Any) -> Any:
        for name, reason in REFUSED.items():
            if isinstance(data, dict) and name in data:
                raise ValueError(f"Paddock cannot connect {name}: {reason}")
        return data


# Hermes writes the name into its log and into the names of the tools.
ServerName = Annotated[
    str,
    Field(
        pattern=worded(
            r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$",
            "a name: at most 64 letters, digits, _ . and -, beginning with a letter, a digit or _",
        )
    ),
]

_OF_A_URL: Final = (
    *("headers", "transport", "auth", "oauth", "ssl_verify", "ca_file", "client_cert", "client_key"),
    *("client_key_password", "skip_preflight"),
)
_OF_A_PROGRAM: Final = ("args", "env", "idle_timeout", "max_lifetime")


class ToolChoice(Model):
    """The tools of an MCP server that the agent may use."""

    include: list[str] = Field(default_factory=no_items, description="only these")
    exclude: list[str] = Field(default_factory=no_items, description="all but these")
    resources: bool = Field(True, description="whether the agent gets tools that list and read the server's resources")
    prompts: bool = Field(True, description="whether the agent gets tools that list and read the server's prompts")


class OAuthSpec(Model):
    """How the agent registers with an MCP server; its tokens are in the state."""

    client_id: str | None = Field(None, description="id of a client that is registered already")
    client_secret: str | None = Field(None, description="secret of that client: ${NAME} of a secret")
    client_name: str | None = Field(None, description="name to register with")
    scope: str | None = Field(None, description="scopes to ask for, separated by blanks")
    redirect_uri: Url | None = Field(None, description="address that the login page returns to")
    redirect_host: str | None = Field(None, description="host of that address; without it 127.0.0.1")
    redirect_port: Port | None = Field(None, description="port of that address; without it any free one")
    timeout: Duration | None = Field(None, description="how long a login may take")


class SamplingSpec(Model):
    """Requests of the server to the agent's model."""

    enabled: bool = Field(True, description="whether the server may ask the model")
    model: str | None = Field(None, description="model for these requests, instead of the agent's")
    allowed_models: list[str] = Field(default_factory=no_items, description="models that the server may ask for")
    max_tokens_cap: int | None = Field(None, ge=1, description="longest answer, in tokens")
    max_tool_rounds: int | None = Field(None, ge=0, description="calls of tools in one request; 0: none")
    max_rpm: int | None = Field(None, ge=1, description="requests a minute")
    timeout: Duration | None = Field(None, description="timeout of one request")
    log_level: Literal["debug", "info", "warning"] | None = Field(None, description="level of its lines in the log")


class ElicitationSpec(Model):
    """Questions of the server to the person who talks to the agent."""

    enabled: bool = Field(True, description="whether the server may ask")
    timeout: Duration | None = Field(None, description="how long the agent waits for an answer")


class McpServerSpec(Model):
    """An MCP server: a program on the agent's machine, or a URL."""

    command: str | None = Field(
        None, description="program to start; Paddock brings node, npm, npx, uv and uvx if a server needs them"
    )
    args: list[str] = Field(default_factory=no_items, description="arguments of the program")
    env: dict[str, str] = Field(
        default_factory=no_keys, description="environment of the program; ${NAME} is replaced by a secret's value"
    )
    idle_timeout: Duration | None = Field(None, description="how long an unused program runs; it is started again")
    max_lifetime: Duration | None = Field(None, description="how long a program runs before it is started again")
    url: Url | None = Field(None, description="URL of the server, instead of a program")
    transport: Literal["http", "sse"] = Field("http", description="protocol of the URL: http (streamable), or sse")
    headers: dict[str, str] = Field(
        default_factory=no_keys, description="HTTP headers; ${NAME} is replaced by a secret's value"
    )
    auth: Literal["oauth"] | None = Field(None, description="oauth: a person logs in with `hermes mcp login NAME`")
    oauth: OAuthSpec | None = Field(None, description="how the agent registers with the server, with auth: oauth")
    ssl_verify: bool = Field(True, description="whether the server's certificate is verified")
    ca_file: AbsolutePath | None = Field(None, description="file on the agent's machine with the server's authorities")
    client_cert: AbsolutePath | None = Field(None, description="certificate on the agent's machine to identify with")
    client_key: AbsolutePath | None = Field(None, description="its key, if that is in another file")
    client_key_password: str | None = Field(None, description="the key's password: ${NAME} of a secret")
    skip_preflight: bool = Field(False, description="whether to skip the test whether the URL is an MCP server")
    enabled: bool = Field(True, description="whether the agent uses the server")
    timeout: Duration | None = Field(None, description="timeout of one call")
    connect_timeout: Duration | None = Field(
        None, description="timeout of the connection; the agent starts after it, if the server does not answer"
    )
    keepalive_interval: Duration | None = Field(None, description="how often the connection is tested; at least 5s")
    supports_parallel_tool_calls: bool = Field(False, description="whether its tools may be called at the same time")
    tools: ToolChoice = Field(ToolChoice.model_construct(), description="which tools of the server the agent may use")
    sampling: SamplingSpec = Field(
        SamplingSpec.model_construct(), description="requests of the server to the agent's model"
    )
    elicitation: ElicitationSpec = Field(
        ElicitationSpec.model_construct(), description="questions of the server to the person"
    )

    @model_validator(mode="after")
    def _program_or_url(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server needs either command: (a program) or url:")
        of_others, needed = (_OF_A_URL, "url") if self.url is None else (_OF_A_PROGRAM, "command")
        if given := [key for key in of_others if key in self.model_fields_set]:
            raise ValueError(f"{' and '.join(given)} {'needs' if len(given) == 1 else 'need'} {needed}:")
        return self

    @model_validator(mode="after")
    def _parts_go_together(self) -> Self:
        if self.oauth and not self.auth:
            raise ValueError("oauth needs auth: oauth")
        if self.client_key and not self.client_cert:
            raise ValueError("client_key needs client_cert:")
        if self.client_key_password and not self.client_key:
            raise ValueError("client_key_password needs client_key:")
        if self.ca_file and not self.ssl_verify:
            raise ValueError("ca_file and ssl_verify: false contradict each other; keep one")
        if self.keepalive_interval is not None and self.keepalive_interval < 5:
            raise ValueError("keepalive_interval must be at least 5s")
        return self


HOME: Final = ".hermes"  # Hermes' own folder in the agent's home
DASHBOARD_LOGIN: Final = ("HERMES_DASHBOARD_BASIC_AUTH_USERNAME", "HERMES_DASHBOARD_BASIC_AUTH_PASSWORD")
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


def section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of Hermes' settings; empty if it is no mapping."""
    found = settings.get(name)
    return found if isinstance(found, dict) else {}
