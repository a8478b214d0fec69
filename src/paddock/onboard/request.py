"""Ask the agent the question on stdin, and print the reply. Runs on the machine, with Python 3.7 or newer.

An agent that does not listen yet is asked again for ``patience`` seconds: that is faster than another ssh connection.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from typing import Any

from paddock.onboard.loopback import connect, request

PAUSE = 0.02  # seconds


def main() -> None:
    print(json.dumps(awaited(json.load(sys.stdin))))


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
    return [*question["owners"], os.geteuid()]


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
    raise SystemExit(f"there is no {name} on this machine: the agent is not configured")
