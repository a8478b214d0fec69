"""Ask the agent a question, on its machine, because it listens on loopback only."""

from __future__ import annotations

import os
import shlex
import time

from paddock.onboard.loopback import connect, request
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import FAILED, Refusal
from paddock.onboard.state.child import ids_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paddock.onboard.program.serve import Payload

PAUSE = 0.02  # seconds


@frozen
class AskAgent:
    """Ask the agent. One that does not listen yet is asked again for the seconds of ``patience``."""

    question: dict[str, object]

    def perform(self, _: Payload) -> dict[str, Any]:
        return awaited(self.question)


def awaited(question: dict[str, Any]) -> dict[str, Any]:
    """Return the reply of the agent, or why there is none after ``patience`` seconds."""
    end = time.monotonic() + question["patience"]
    reply = ask(question)
    while "refused" in reply and time.monotonic() < end:
        time.sleep(PAUSE)
        reply = ask(question)
    return reply


def ask(question: dict[str, Any]) -> dict[str, Any]:
    if "port" in question:
        return connect(question["port"], question["seconds"])
    if not question["bearer"]:
        return request(question)
    return request(question, secret(question["bearer"], question["env_files"]), owners=owners(question))


def owners(question: dict[str, Any]) -> list[int]:
    """Return the users who may get the agent's key: those of the agent, and the one who asks."""
    found = [ids_of(account) for account in question["owners"]]
    return [*(each[0] for each in found if each), os.geteuid()]


def secret(name: str, files: list[str]) -> str:
    """Return a secret from the environment files of the agent."""
    for path in files:
        try:
            lines = open(path).read().split("\n")
        except OSError:
            continue
        for line in lines:
            if line.startswith(name + "="):
                return "".join(shlex.split(line.split("=", 1)[1]))
    raise Refusal(f"there is no {name} on this machine: the agent is not configured", FAILED)
