"""Messengers with the real Hermes Agent: an allowed sender gets an answer, and a stranger gets none."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agent.installed import install_code
from agent.standins import BOT, Irc, Matrix, Ntfy, played
from levels import slow_proof
from paddock.demo import Stage, process_stage, running_agent
from pvebox.standins.stage import free_port, stage_folder

pytestmark = [pytest.mark.agent, slow_proof]

MATRIX_TOKEN = "syt_of-the-stand-in"
NTFY_TOKEN = "tk_of-the-stand-in"
SECRET = "webhook-secret-of-the-test"


@dataclass(frozen=True)
class Talk:
    """An agent in processes of this machine, with every messenger that has a stand-in."""

    stage: Stage
    matrix: Matrix
    ntfy: Ntfy
    irc: Irc
    webhook: str

    def state(self) -> dict[str, Any]:
        home = Path(self.stage.environment["XDG_DATA_HOME"]) / "paddock/hermes/state/home"
        found: dict[str, Any] = json.loads((home / ".hermes/gateway_state.json").read_text())
        return found

    def verified(self) -> dict[str, dict[str, Any]]:
        """Return the lines of `verify` about connectors, by the names of the checks."""
        command = [sys.executable, "-m", "paddock", "verify", "hermes", "--json"]
        done = subprocess.run(
            command, cwd=self.stage.folder, env=dict(self.stage.environment), capture_output=True, text=True
        )
        lines = json.loads(done.stdout)[0]["lines"]
        return {line["check"]: line for line in lines if line["check"].startswith("connectors")}

    def post(self, route: str, body: dict[str, str], secret: str | None) -> int:
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if secret is not None:
            headers["X-Hub-Signature-256"] = f"sha256={hmac.new(secret.encode(), data, hashlib.sha256).hexdigest()}"
        request = urllib.request.Request(f"{self.webhook}/webhooks/{route}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    matrix, ntfy = Matrix(MATRIX_TOKEN), Ntfy(NTFY_TOKEN)
    with (
        stage_folder() as folder,
        process_stage(folder) as stage,
        played(matrix) as matrix_url,
        played(ntfy) as ntfy_url,
        Irc().serving() as irc,
    ):
        port = free_port()
        connectors = {
            "matrix": {"homeserver": matrix_url, "user_id": BOT, "allow": ["@ann:stand.in"]},
            "ntfy": {"server": ntfy_url, "topic": "home", "publish_topic": "answers"},
            "webhook": {
                "port": port,
                "routes": {"word": {"prompt": "Say {word}.", "deliver": "ntfy"}, "other": {"secret_env": "OTHER"}},
            },
            "irc": {"allow": ["ann"]},
            # Hermes takes such a token for a placeholder and does not start the connector.
            "telegram": {"allow": [1], "endpoint": "http://127.0.0.1:9"},
        }
        irc_variables = {"IRC_SERVER": "127.0.0.1", "IRC_PORT": str(irc.port), "IRC_USE_TLS": "false"}
        agent = {
            "connectors": connectors,
            "environment": {**irc_variables, "IRC_CHANNEL": "#lab", "IRC_NICKNAME": "bot"},
            "secrets": {
                name: {"env": name}
                for name in ("MATRIX_ACCESS_TOKEN", "NTFY_TOKEN", "WEBHOOK_SECRET", "OTHER", "TELEGRAM_BOT_TOKEN")
            },
        }
        secrets = {"MATRIX_ACCESS_TOKEN": MATRIX_TOKEN, "NTFY_TOKEN": NTFY_TOKEN, "WEBHOOK_SECRET": SECRET}
        secrets |= {"OTHER": "another-secret-of-the-test", "TELEGRAM_BOT_TOKEN": "abc"}
        _add(folder / "paddock.yaml", agent)
        own = replace(stage, environment={**stage.environment, **secrets})
        install_code(own)
        with running_agent(own):
            found = Talk(own, matrix, ntfy, irc, f"http://127.0.0.1:{port}")
            _wait_for(irc.joined.is_set)
            _wait_for(lambda: found.state()["platforms"].get("webhook", {}).get("state") == "connected")
            yield found
        own.paddock("down")


def _add(path: Path, agent: dict[str, Any]) -> None:
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe")
    tree = yaml.load(path.read_text())
    spec = tree["agents"]["hermes"]
    for key, value in agent.items():
        spec[key] = {**spec.get(key, {}), **value}
    with path.open("w") as file:
        yaml.dump(tree, file)


def _wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


def _answered(heard: Callable[[], list[str]], text: str) -> None:
    _wait_for(lambda: any(f"ok: {text}" in line for line in heard()))


def test_matrix_answers_allowed_users_only(talk: Talk) -> None:
    talk.matrix.say("@eve:stand.in", "Let me in.")
    talk.matrix.say("@ann:stand.in", "Say hello.")
    _answered(lambda: talk.matrix.heard("@ann:stand.in"), "Say hello")
    assert talk.matrix.heard("@eve:stand.in") == []


def test_irc_as_one_of_the_other_messengers_answers_allowed_users_only(talk: Talk) -> None:
    talk.irc.say("eve", "Let me in.")
    talk.irc.say("ann", "Say hello.")
    _answered(lambda: talk.irc.heard("ann"), "Say hello")
    assert talk.irc.heard("eve") == []


def test_ntfy_answers_its_own_topic_only(talk: Talk) -> None:
    talk.ntfy.say("elsewhere", "Let me in.")
    talk.ntfy.say("home", "Say hello.")
    _answered(lambda: talk.ntfy.heard("answers"), "Say hello")
    assert not any("Let me in" in line for line in talk.ntfy.heard("answers"))
    assert talk.ntfy.heard("elsewhere") == []


def test_a_webhook_takes_signed_messages_only(talk: Talk) -> None:
    assert talk.post("word", {"word": "nothing"}, None) == 401
    assert talk.post("word", {"word": "nothing"}, "another-secret-of-the-test") == 401
    assert talk.post("other", {"word": "nothing"}, "${OTHER}") == 401
    assert talk.post("nowhere", {}, SECRET) == 404
    assert talk.post("other", {"word": "nothing"}, "another-secret-of-the-test") == 202
    assert talk.post("word", {"word": "cheese"}, SECRET) == 202
    _answered(lambda: talk.ntfy.heard("answers"), "Say cheese")
    assert not any("nothing" in line for line in talk.ntfy.heard("answers"))


def test_verify_says_what_was_proved_and_names_a_connector_with_a_placeholder_token(talk: Talk) -> None:
    lines = talk.verified()
    told = lines["connectors"]["evidence"]
    assert "telegram" not in talk.state()["platforms"]
    assert lines["connectors"]["outcome"] == "failed"
    assert "telegram not started" in told
    assert "its token looks like a placeholder" in lines["connectors"]["hint"]
    assert all(f"{name} connected" in told for name in ("api_server", "irc", "matrix", "ntfy", "webhook"))
    proofs = {name: line["evidence"] for name, line in lines.items() if line["outcome"] == "ok"}
    assert "accepts MATRIX_ACCESS_TOKEN as @bot:stand.in" in proofs["connectors.matrix"]
    assert "lets the agent read its topic with NTFY_TOKEN" in proofs["connectors.ntfy"]
    assert "/webhooks/word refuses a message without a signature" in proofs["connectors.webhook.word"]
    assert "/webhooks/other refuses" in proofs["connectors.webhook.other"]


def test_verify_finds_a_broken_server_that_hermes_reports_as_connected(talk: Talk) -> None:
    talk.ntfy.status = 500
    try:
        lines = talk.verified()
    finally:
        talk.ntfy.status = 200
    assert "ntfy connected" in lines["connectors"]["evidence"]
    assert lines["connectors.ntfy"]["outcome"] == "failed"
    assert "answers 500, whatever Hermes reports" in lines["connectors.ntfy"]["evidence"]
