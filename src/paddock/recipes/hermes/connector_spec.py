"""The keys below ``connectors``: the ways to talk to an agent of kind ``hermes``."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from paddock.recipes.hermes.platforms import PLATFORMS, REFUSED
from paddock.spec.fields import Model, Port, Url, VariableName, no_items, no_keys, worded


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
    """A path of the webhook: what a signed message makes the agent do."""

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
