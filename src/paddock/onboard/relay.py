"""Make the requests that arrive on stdin, several at once, and print what the agent answers, line by line.

Runs on the machine, with Python 3.7 or newer, for as long as its stdin is open. Each line of stdin is a request with an
``id``, and each line of stdout is a part of the answer with the same ``id``; the last part has ``end``.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

from paddock.onboard.loopback import MOST, ToTheAgent, request
from paddock.onboard.request import owners, secret

printing = threading.Lock()


def main() -> None:
    for line in sys.stdin:
        threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()


def answer(question: dict[str, Any]) -> None:
    """Make one request and print the parts of its answer."""
    try:
        token = secret(question["bearer"], question["env_files"]) if question["bearer"] else None
        for part in lines(question, token) if question["stream"] else [once(question, token)]:
            tell({"id": question["id"], **part})
    except SystemExit as error:
        tell({"id": question["id"], "refused": str(error)})
    finally:
        tell({"id": question["id"], "end": True})


def once(question: dict[str, Any], token: str | None) -> dict[str, Any]:
    return request(question, token, owners=owners(question))


def lines(question: dict[str, Any], token: str | None) -> Iterator[dict[str, Any]]:
    """Yield the lines of a streamed answer. ``seconds`` limits how long the agent may send nothing."""
    url = urllib.parse.urlsplit(question["url"])
    headers = {**question["headers"], **({"Authorization": "Bearer " + token} if token is not None else {})}
    connection = ToTheAgent(str(url.hostname), url.port, timeout=question["seconds"])
    connection.owners = owners(question)
    try:
        connection.request(question["method"], url.path, headers=headers)
        response = connection.getresponse()
        for line in iter(lambda: response.readline(MOST), b""):
            yield {"line": line.decode(errors="replace").rstrip("\r\n")}
    except (OSError, http.client.HTTPException) as error:
        yield {"refused": "{}: {}".format(question["url"], error)}
    finally:
        connection.close()


def tell(part: dict[str, Any]) -> None:
    """Print one part of an answer whole, although others are printed at the same time."""
    with printing:
        sys.stdout.write(json.dumps(part) + "\n")
        sys.stdout.flush()
