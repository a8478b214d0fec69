"""The messengers that Hermes 0.19.0 ships, with the names of Hermes' variables for each.

Paddock's keys are the same for all of them. The variables are read in Hermes' gateway/config.py and authz_mixin.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from paddock.base.frozen import frozen


@frozen
class Listener:
    """The port on which a messenger's servers call the agent."""

    number: int  # unless the variable has another
    port: str  # variable of the port
    host: str | None  # variable of the address; None: always all addresses


@frozen
class Platform:
    """The variables of one messenger."""

    needs: Sequence[str] = ()  # without them Hermes does not start it
    starts: Sequence[str] = ()  # with them Hermes starts it, unless they are all that it needs
    prefix: str = ""  # of _ALLOWED_USERS and _ALLOW_ALL_USERS, unless it is the name
    home: str = ""  # variable of the home channel, unless it is the prefix with _HOME_CHANNEL
    extra: str | None = None  # of the Python package
    listener: Listener | None = None
    servers: Sequence[str] = ()  # fixed host names; others are in the file's URLs
    hosts: Sequence[tuple[str, str, int]] = ()  # variables of a host and of its port, and the usual port
    # A URL that answers only to the right token: the variable with the server, the path, the variable with the token.
    proof: tuple[str, str, str] | None = None


PLATFORMS: Final[Mapping[str, Platform]] = {
    "telegram": Platform(("TELEGRAM_BOT_TOKEN",), extra="messaging", servers=("api.telegram.org",)),
    "discord": Platform(
        ("DISCORD_BOT_TOKEN",),
        extra="messaging",
        servers=("discord.com", "gateway.discord.gg", "cdn.discordapp.com"),
    ),
    "slack": Platform(
        ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"),
        starts=("SLACK_BOT_TOKEN",),
        extra="messaging",
        servers=("slack.com", "files.slack.com", "wss-primary.slack.com", "wss-backup.slack.com"),
    ),
    # Its token may be a password instead; the validation of the file knows.
    "matrix": Platform(starts=("MATRIX_ACCESS_TOKEN",), home="MATRIX_HOME_ROOM", extra="matrix"),
    "mattermost": Platform(
        ("MATTERMOST_URL", "MATTERMOST_TOKEN"),
        starts=("MATTERMOST_TOKEN",),
        proof=("MATTERMOST_URL", "/api/v4/users/me", "MATTERMOST_TOKEN"),
    ),
    "signal": Platform(("SIGNAL_HTTP_URL", "SIGNAL_ACCOUNT")),
    "irc": Platform(("IRC_SERVER", "IRC_CHANNEL"), hosts=(("IRC_SERVER", "IRC_PORT", 6697),)),
    "email": Platform(
        ("EMAIL_ADDRESS", "EMAIL_PASSWORD", "EMAIL_IMAP_HOST", "EMAIL_SMTP_HOST"),
        home="EMAIL_HOME_ADDRESS",
        hosts=(("EMAIL_IMAP_HOST", "EMAIL_IMAP_PORT", 993), ("EMAIL_SMTP_HOST", "EMAIL_SMTP_PORT", 587)),
    ),
    "sms": Platform(
        # Without the URL it could not check who calls it, and does not start.
        ("TWILIO_ACCOUNT_SID", "TWILIO_AUTH_TOKEN", "TWILIO_PHONE_NUMBER", "SMS_WEBHOOK_URL"),
        starts=("TWILIO_ACCOUNT_SID",),
        listener=Listener(8080, "SMS_WEBHOOK_PORT", "SMS_WEBHOOK_HOST"),
        servers=("api.twilio.com",),
    ),
    "whatsapp_cloud": Platform(
        # It answers none of Meta's calls without the last two.
        (
            *("WHATSAPP_CLOUD_PHONE_NUMBER_ID", "WHATSAPP_CLOUD_ACCESS_TOKEN"),
            *("WHATSAPP_CLOUD_APP_SECRET", "WHATSAPP_CLOUD_VERIFY_TOKEN"),
        ),
        starts=("WHATSAPP_CLOUD_PHONE_NUMBER_ID", "WHATSAPP_CLOUD_ACCESS_TOKEN"),
        listener=Listener(8090, "WHATSAPP_CLOUD_WEBHOOK_PORT", "WHATSAPP_CLOUD_WEBHOOK_HOST"),
        servers=("graph.facebook.com",),
    ),
    "simplex": Platform(("SIMPLEX_WS_URL",)),
    "bluebubbles": Platform(
        ("BLUEBUBBLES_SERVER_URL", "BLUEBUBBLES_PASSWORD"),
        listener=Listener(8645, "BLUEBUBBLES_WEBHOOK_PORT", "BLUEBUBBLES_WEBHOOK_HOST"),
    ),
    "line": Platform(
        ("LINE_CHANNEL_ACCESS_TOKEN", "LINE_CHANNEL_SECRET"),
        listener=Listener(8646, "LINE_PORT", "LINE_HOST"),
        servers=("api.line.me", "api-data.line.me"),
    ),
    "teams": Platform(
        ("TEAMS_CLIENT_ID", "TEAMS_CLIENT_SECRET", "TEAMS_TENANT_ID"),
        extra="teams",
        listener=Listener(3978, "TEAMS_PORT", None),
        servers=("login.microsoftonline.com", "api.botframework.com", "smba.trafficmanager.net"),
    ),
    "dingtalk": Platform(("DINGTALK_CLIENT_ID", "DINGTALK_CLIENT_SECRET"), extra="dingtalk"),
    "feishu": Platform(("FEISHU_APP_ID", "FEISHU_APP_SECRET"), extra="feishu"),
    "wecom": Platform(("WECOM_BOT_ID", "WECOM_SECRET")),
    "wecom_callback": Platform(
        (
            *("WECOM_CALLBACK_CORP_ID", "WECOM_CALLBACK_CORP_SECRET", "WECOM_CALLBACK_AGENT_ID"),
            *("WECOM_CALLBACK_TOKEN", "WECOM_CALLBACK_ENCODING_AES_KEY"),
        ),
        starts=("WECOM_CALLBACK_CORP_ID", "WECOM_CALLBACK_CORP_SECRET"),
        extra="wecom",
        listener=Listener(8645, "WECOM_CALLBACK_PORT", "WECOM_CALLBACK_HOST"),
    ),
    "weixin": Platform(("WEIXIN_TOKEN", "WEIXIN_ACCOUNT_ID"), starts=("WEIXIN_TOKEN",)),
    "qqbot": Platform(("QQ_APP_ID", "QQ_CLIENT_SECRET"), prefix="QQ", home="QQBOT_HOME_CHANNEL"),
    "yuanbao": Platform(("YUANBAO_APP_ID", "YUANBAO_APP_SECRET")),
}

# Messengers that Hermes ships and that cannot work here, with the reason.
REFUSED: Final[Mapping[str, str]] = {
    "whatsapp": "it needs a Node program that the Python package does not contain; use whatsapp_cloud",
    "photon": "it needs a Node program that the Python package does not contain",
    "google_chat": "it needs google-cloud-pubsub, which no extra of hermes-agent brings",
    "raft": "it has no list of allowed users, and needs the program raft",
    "relay": "it has no list of allowed users: another server decides who may talk to the agent",
    "msgraph_webhook": "it has no list of allowed users; it delivers notifications, not messages",
}


def prefix(name: str) -> str:
    """Return the beginning of the names of a messenger's variables."""
    return PLATFORMS[name].prefix or name.upper()


def home_variable(name: str) -> str:
    """Return the variable with the channel for messages that the agent sends unasked."""
    return PLATFORMS[name].home or f"{prefix(name)}_HOME_CHANNEL"
