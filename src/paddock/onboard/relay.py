"""Make requests to the agent, several at once, and pass on what it answers, line by line."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.parse

from paddock.onboard.loopback import MOST, ToTheAgent, request
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import Refusal
from paddock.onboard.program.serve import say
from paddock.onboard.request import owners, secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from paddock.onboard.program.serve import Payload

printing = threading.Lock()


@frozen
class Relay:
    """Make each request of the payload. It has an ``id``, and so have the parts of its answer; the last has ``end``."""

    def perform(self, payload: Payload) -> None:
        for asked in payload.frames():
            threading.Thread(target=answer, args=(json.loads(asked),), daemon=True).start()


def answer(question: dict[str, Any]) -> None:
    """Make one request and print the parts of its answer."""
    try:
        token = secret(question["bearer"], question["env_files"]) if question["bearer"] else None
        for part in lines(question, token) if question["stream"] else [once(question, token)]:
            tell({"id": question["id"], **part})
    except (Refusal, SystemExit) as error:
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
    """Pass on one part of an answer whole, although others are passed on at the same time."""
    with printing:
        say(part)
