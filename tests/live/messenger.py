"""Telegram users who write to the bot of an agent, and the answers they get."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from live.node import Node
from pvebox.standins import telegram

BOT_TOKEN = "110201543:AAH-of-the-stand-in"


@dataclass(frozen=True)
class Messenger:
    """A stand-in for the Telegram API on the network of a node."""

    api: str

    def connect(self, spec: dict[str, Any]) -> None:
        """Connect an agent to the stand-in as a bot. User 4242 may write to it."""
        spec.setdefault("secrets", {})["TELEGRAM_BOT_TOKEN"] = {"env": "BOT_TOKEN"}
        connector = {"allow": [4242], "endpoint": self.api, "home_channel": 4242}
        spec.setdefault("connectors", {})["telegram"] = connector

    def say(self, person: int, text: str) -> None:
        body = json.dumps({"from": person, "text": text}).encode()
        request = urllib.request.Request(f"{self.api}/say", body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=5).close()

    def heard(self, person: int) -> list[str]:
        with urllib.request.urlopen(f"{self.api}/said?to={person}", timeout=5) as answer:
            return list(json.load(answer)["result"])


@contextmanager
def messenger(node: Node) -> Iterator[Messenger]:
    with telegram.serve(BOT_TOKEN, node.gateway) as api:
        yield Messenger(api)
