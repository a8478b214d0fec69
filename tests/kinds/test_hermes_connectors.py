"""The connectors of kind hermes become Hermes' variables and settings, and checks that prove what can be proved."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.kinds.checks import Check
from paddock.kinds.endpoints import named_in
from paddock.kinds.hermes import connectors
from paddock.kinds.hermes.platforms import PLATFORMS, REFUSED
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import ConnectorsSpec, HermesSpec
from paddock.kinds.workload import Answer, Keep, Paths, Request, judged

PATHS = Paths(code="/code", etc="/etc/x", state="/state", home="/state/home", state_link="/state")
MATRIX = {"homeserver": "https://m.example:8448", "allow": ["@ann:m.example", "@bob:m.example"]}
EVERY = {name: {"allow": ["u1", "u2"], "home_channel": "c1"} for name in PLATFORMS if name != "matrix"}


def agent(talk: dict[str, Any], **more: Any) -> HermesSpec:
    return HermesSpec.model_validate(
        {"kind": "hermes", "version": "0.19.0", "place": "home", "connectors": talk, **more}
    )


def check(found: HermesSpec, name: str) -> Check:
    return next(each for each in Hermes().checks(found, "hermes", PATHS) if each.name == name)


def verdict(found: HermesSpec, name: str, status: int, body: Any = None) -> tuple[bool, str]:
    told = check(found, name).judge(Answer(status, body))
    return told.ok, told.evidence


def test_every_messenger_of_the_table_is_a_key_and_every_refused_one_is_not() -> None:
    own = {"api_server", "ntfy", "webhook", "homeassistant"}
    assert ConnectorsSpec.model_fields.keys() == PLATFORMS.keys() | own
    assert not REFUSED.keys() & ConnectorsSpec.model_fields.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_a_messenger_that_cannot_work_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ValueError, match=f"Paddock cannot connect {name}: it"):
        agent({name: {"allow": [1]}})


def test_users_and_home_channels_have_the_names_that_hermes_reads() -> None:
    found = connectors.environment(agent({**EVERY, "matrix": {**MATRIX, "home_channel": "!r:m.example"}}))
    assert {name for name, value in found.items() if value == "u1,u2"} == {
        f"{name.upper()}_ALLOWED_USERS" for name in EVERY if name != "qqbot"
    } | {"QQ_ALLOWED_USERS"}
    assert found["MATRIX_ALLOWED_USERS"] == "@ann:m.example,@bob:m.example"
    assert found["MATRIX_HOME_ROOM"] == "!r:m.example"
    assert (found["EMAIL_HOME_ADDRESS"], found["QQBOT_HOME_CHANNEL"], found["IRC_HOME_CHANNEL"]) == ("c1", "c1", "c1")
    everyone = connectors.environment(agent({"qqbot": {"allow_all": True}}))
    assert (everyone["QQ_ALLOW_ALL_USERS"], everyone["QQ_ALLOWED_USERS"]) == ("true", "")


def test_matrix_and_ntfy_get_their_servers() -> None:
    talk = {
        "matrix": {**MATRIX, "user_id": "@bot:m.example"},
        "ntfy": {"topic": "home", "server": "http://10.0.0.8:81", "publish_topic": "answers"},
    }
    found = agent(talk)
    values = connectors.environment(found)
    assert values["MATRIX_HOMESERVER"] == "https://m.example:8448"
    assert (values["MATRIX_USER_ID"], values["MATRIX_E2EE_MODE"]) == ("@bot:m.example", "off")
    assert (values["NTFY_TOPIC"], values["NTFY_PUBLISH_TOPIC"]) == ("home", "answers")
    assert (values["NTFY_ALLOWED_USERS"], values["NTFY_ALLOW_ALL_USERS"]) == ("home", "false")
    assert {*connectors.reaches(found)} == {*named_in(["https://m.example:8448", "http://10.0.0.8:81"])}
    assert connectors.settings(found) == {"unauthorized_dm_behavior": "ignore"}


def test_the_hosts_of_irc_and_mail_are_reached() -> None:
    environment = {"IRC_SERVER": "10.0.0.4", "IRC_PORT": "6667", "EMAIL_IMAP_HOST": "mail.example"}
    found = agent({"irc": {"allow": ["ann"]}, "email": {"allow": ["a@b.example"]}}, environment=environment)
    assert [str(each) for each in connectors.reaches(found)] == ["10.0.0.4:6667", "mail.example:993"]


def test_a_webhook_listens_on_loopback_unless_exposed_and_its_secrets_are_references() -> None:
    routes = {
        "git": {"secret_env": "GIT_SECRET", "prompt": "Look at {repo}", "events": ["push"], "skills": ["review"]},
        "alerts": {"deliver": "ntfy", "deliver_extra": {"chat_id": "home"}, "deliver_only": True},
    }
    talk = {"webhook": {"port": 9001, "rate_limit": 5, "routes": routes}}
    assert connectors.settings(agent(talk))["platforms"]["webhook"] == {
        "enabled": True,
        "extra": {
            "host": "127.0.0.1",
            "port": 9001,
            "rate_limit": 5,
            "routes": {
                "git": {
                    "secret": "${GIT_SECRET}",
                    "prompt": "Look at {repo}",
                    "events": ["push"],
                    "skills": ["review"],
                },
                "alerts": {"deliver": "ntfy", "deliver_extra": {"chat_id": "home"}, "deliver_only": True},
            },
        },
    }
    exposed = agent(talk, expose={"webhook": {"address": "192.0.2.7"}})
    assert connectors.settings(exposed)["platforms"]["webhook"]["extra"]["host"] == "192.0.2.7"
    assert exposed.ports()["webhook"] == 9001


def test_a_messenger_that_is_called_listens_on_loopback_unless_exposed() -> None:
    found = agent({"line": {"allow": [1]}}, environment={"LINE_PORT": "9002"})
    assert (connectors.environment(found)["LINE_HOST"], found.ports()["line"]) == ("127.0.0.1", 9002)
    exposed = agent({"line": {"allow": [1]}}, expose={"line": {}})
    assert (connectors.environment(exposed)["LINE_HOST"], exposed.ports()["line"]) == ("0.0.0.0", 8646)


def test_home_assistant_tells_domains_and_entities_apart() -> None:
    found = connectors.settings(agent({"homeassistant": {"watch": ["light", "lock.door"]}}))
    extra = {"watch_domains": ["light"], "watch_entities": ["lock.door"]}
    assert found["platforms"]["homeassistant"] == {"extra": extra}


def test_the_agent_cannot_add_users_or_routes() -> None:
    talk = {"matrix": MATRIX, "ntfy": {"topic": "home"}, "webhook": {"routes": {"git": {}}}}
    files = Hermes().workload(agent(talk), PATHS, "/code/tree").state_files
    locked = {each.path: each.content for each in files if each.keep is Keep.LOCKED}
    assert locked[".hermes/webhook_subscriptions.json"] == "{}\n"
    assert {path.rpartition("/")[2] for path in locked if "pairing" in path} == {
        "matrix-approved.json",
        "ntfy-approved.json",
    }


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_messenger_wants_to_know_who_may_talk(name: str) -> None:
    with pytest.raises(ValueError, match="say who may talk to the agent"):
        agent({name: {**MATRIX, "allow": []} if name == "matrix" else {}})


def test_the_token_of_matrix_must_be_that_of_the_user_in_the_file() -> None:
    found = agent({"matrix": {**MATRIX, "user_id": "@bot:m.example"}}, secrets={"MATRIX_ACCESS_TOKEN": {"env": "T"}})
    asked = check(found, "connectors.matrix").question
    assert isinstance(asked, Request)
    assert (asked.url, asked.bearer) == (
        "https://m.example:8448/_matrix/client/v3/account/whoami",
        "MATRIX_ACCESS_TOKEN",
    )
    assert verdict(found, "connectors.matrix", 200, {"user_id": "@bot:m.example"}) == (
        True,
        "https://m.example:8448 accepts MATRIX_ACCESS_TOKEN as @bot:m.example",
    )
    assert verdict(found, "connectors.matrix", 200, {"user_id": "@eve:m.example"}) == (
        False,
        "MATRIX_ACCESS_TOKEN belongs to @eve:m.example, not to @bot:m.example",
    )
    assert verdict(found, "connectors.matrix", 401) == (
        False,
        "https://m.example:8448 refuses the agent: it answers 401, whatever Hermes reports",
    )


def test_a_password_for_matrix_is_not_tried_and_the_line_says_so() -> None:
    found = agent({"matrix": {**MATRIX, "user_id": "@bot:m.example"}}, secrets={"MATRIX_PASSWORD": {"env": "T"}})
    asked = check(found, "connectors.matrix").question
    assert isinstance(asked, Request)
    assert (asked.url, asked.bearer) == ("https://m.example:8448/_matrix/client/versions", None)
    ok, told = verdict(found, "connectors.matrix", 200, {})
    assert ok
    assert told.endswith("is a homeserver; MATRIX_PASSWORD was not tried")


def test_ntfy_is_proved_by_its_topic_with_its_token() -> None:
    plain = agent({"ntfy": {"topic": "home"}})
    asked = check(plain, "connectors.ntfy").question
    assert isinstance(asked, Request)
    assert (asked.url, asked.bearer) == ("https://ntfy.sh/home/json?poll=1&since=1s", None)
    assert verdict(plain, "connectors.ntfy", 500) == (
        False,
        "https://ntfy.sh answers 500, whatever Hermes reports",
    )
    with_token = agent({"ntfy": {"topic": "home"}}, secrets={"NTFY_TOKEN": {"env": "T"}})
    assert verdict(with_token, "connectors.ntfy", 200) == (
        True,
        "https://ntfy.sh lets the agent read its topic with NTFY_TOKEN; no answer was published",
    )
    elsewhere = agent({"ntfy": {"topic": "home"}}, environment_files=[{"file": "all.env"}])
    assert "connectors.ntfy" not in [each.name for each in Hermes().checks(elsewhere, "hermes", PATHS)]


def test_each_route_of_a_webhook_must_refuse_a_message_without_a_signature() -> None:
    found = agent({"webhook": {"routes": {"git": {}, "alerts": {}}}})
    names = [each.name for each in Hermes().checks(found, "hermes", PATHS)]
    assert {"connectors.webhook.git", "connectors.webhook.alerts"} <= {*names}
    assert verdict(found, "connectors.webhook.git", 401)[0]
    assert verdict(found, "connectors.webhook.git", 202) == (
        False,
        "/webhooks/git answered 202 to a message without a signature, not 401",
    )


def test_servers_with_a_token_in_the_file_are_asked() -> None:
    found = agent(
        {"mattermost": {"allow": [1]}, "homeassistant": {"watch": ["light"]}},
        environment={"MATTERMOST_URL": "https://mm.example/", "HASS_URL": "http://10.0.0.9:8123"},
        secrets={"MATTERMOST_TOKEN": {"env": "A"}, "HASS_TOKEN": {"env": "B"}},
    )
    asked = {each.name: each.question for each in Hermes().checks(found, "hermes", PATHS)}
    urls = {name: each.url for name, each in asked.items() if isinstance(each, Request)}
    assert urls["connectors.mattermost"] == "https://mm.example/api/v4/users/me"
    assert urls["connectors.homeassistant"] == "http://10.0.0.9:8123/api/"


def test_a_connector_that_hermes_did_not_start_fails_with_the_likely_reasons() -> None:
    found = agent({"telegram": {"allow": [1]}})
    state = {"platforms": {"api_server": {"state": "connected"}}}
    told = check(found, "connectors").judge(state)
    assert not told.ok
    assert told.evidence == "Hermes reports: api_server connected, telegram not started"
    assert "telegram: a variable that it needs is empty, its token looks like a placeholder" in str(told.hint)


@pytest.mark.parametrize("platforms", [["x"], {"telegram": "connected"}, {"telegram": {"state": ["connected"]}}, 7])
def test_a_state_in_a_wrong_form_never_passes(platforms: Any) -> None:
    found = check(agent({"telegram": {"allow": [1]}}), "connectors")
    assert not judged(found.judge, {"platforms": platforms}).ok


def test_what_the_agent_writes_about_connectors_is_bounded_and_comes_after_the_file() -> None:
    others = {f"a{number}": {"state": "connected"} for number in range(5000)}
    long = {"telegram": {"state": "fatal", "error_message": "\x1b[2J" + "x" * 5000}}
    found = check(agent({"telegram": {"allow": [1]}}), "connectors")
    told = found.judge({"platforms": {**others, **long, "api_server": {"state": "connected"}}})
    assert not told.ok
    assert told.evidence.startswith("Hermes reports: api_server connected, telegram fatal (\\x1b[2J")
    assert told.evidence.index("a0 connected") < 500
