"""Runs on the machine, by itself, with any Python 3: makes one HTTP request described on stdin."""

from __future__ import annotations

import http.client
import json
import shlex
import sys
import urllib.error
import urllib.request
from typing import Any

MOST = 2 << 20  # bytes of an answer


def main() -> None:
    question = json.load(sys.stdin)
    headers = {"Content-Type": "application/json", **question["headers"]}
    if question["bearer"]:
        headers["Authorization"] = "Bearer " + secret(question["bearer"], question["env_files"])
    body = None if question["body"] is None else json.dumps(question["body"]).encode()
    request = urllib.request.Request(question["url"], body, headers, method=question["method"])  # noqa: S310
    # Loopback is never asked through a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=question["seconds"]) as response:
            reply = answered(response.status, response)
    except urllib.error.HTTPError as error:
        reply = answered(error.code, error)
    except (OSError, http.client.HTTPException) as error:
        reply = {"refused": "%s: %s" % (question["url"], getattr(error, "reason", error))}  # noqa: UP031
    print(json.dumps(reply))


def answered(status: int, response: Any) -> dict[str, object]:
    data = response.read(MOST + 1)
    if len(data) > MOST:
        return {"refused": "its answer is longer than %d MiB and was cut" % (MOST >> 20)}  # noqa: UP031
    return {"status": status, "body": decoded(data)}


def decoded(data: bytes) -> object:
    text = data.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def secret(name: str, files: list[str]) -> str:
    for path in files:
        try:
            lines = open(path).read().split("\n")  # noqa: PTH123, SIM115
        except OSError:
            continue
        for line in lines:
            if line.startswith(name + "="):
                return "".join(shlex.split(line.split("=", 1)[1]))
    raise SystemExit("there is no " + name + " on this machine: the agent is not configured")


main()
