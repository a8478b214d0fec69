"""The stand-in for Telegram's Bot API."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from pvebox.standins.telegram import serve

TOKEN = "110201543:AAH-of-a-bot"


@pytest.fixture
def url() -> Iterator[str]:
    with serve(TOKEN) as found:
        yield found


def call(url: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
    request = urllib.request.Request(f"{url}/{path}", body, {"Content-Type": kind} if body else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)["result"]
    except urllib.error.HTTPError as error:
        return json.load(error)["error_code"]


def say(url: str, person: int, text: str) -> None:
    call(url, "say", json.dumps({"from": person, "text": text}).encode())


def test_messages_of_people_reach_the_bot_once(url: str) -> None:
    say(url, 4242, "hello")
    say(url, 666, "me too")
    first, second = call(url, f"bot{TOKEN}/getUpdates")
    assert (first["message"]["from"]["id"], first["message"]["text"]) == (4242, "hello")
    assert second["message"]["chat"] == {"id": 666, "type": "private", "first_name": "Person 666"}
    assert call(url, f"bot{TOKEN}/getUpdates?offset={second['update_id'] + 1}") == []


def test_a_polling_bot_gets_a_new_message_at_once(url: str) -> None:
    threading.Timer(0.3, say, (url, 1, "now")).start()
    start = time.monotonic()
    (update,) = call(url, f"bot{TOKEN}/getUpdates?timeout=20")
    assert update["message"]["text"] == "now"
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_message_of_the_bot_reaches_only_its_recipient(url: str, kind: str) -> None:
    values = {"chat_id": "4242", "text": "a = 1 & b"}
    match kind:
        case "application/json":
            body = json.dumps(values).encode()
        case "multipart/form-data":
            parts = [f'--x\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in values.items()]
            body, kind = "".join([*parts, "--x--\r\n"]).encode(), f"{kind}; boundary=x"
        case _:
            body = urllib.parse.urlencode(values).encode()
    sent = call(url, f"bot{TOKEN}/sendMessage", body, kind)
    assert call(url, "said?to=4242") == ["a = 1 & b"]
    assert call(url, "said?to=666") == []
    edit = {"chat_id": 4242, "message_id": sent["message_id"], "text": "better"}
    call(url, f"bot{TOKEN}/editMessageText", json.dumps(edit).encode())
    assert call(url, "said?to=4242") == ["better"]


def test_a_wrong_bot_token_is_rejected(url: str) -> None:
    assert call(url, f"bot{TOKEN}/getMe")["is_bot"] is True
    assert call(url, "bot1:other/getMe") == 401


@pytest.mark.parametrize("path", [f"bot{TOKEN}/sendMessage", "said", "say"])
def test_a_call_without_its_parameters_is_rejected(url: str, path: str) -> None:
    assert call(url, path, b"{}") in (400, 404)
    assert call(url, f"bot{TOKEN}/flyAway") == 404
