"""A trial of a model before it is written into a file: one request to an OpenAI-compatible server."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import httpx

from paddock.base import bounded
from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen
from paddock.base.secret import Secret, mask
from paddock.base.text import one_line

_SECONDS: Final = 20.0  # for everything
_LARGEST: Final = 8 << 20  # bytes of a response; a list of several hundred models has less than one
_SHOWN: Final = 5  # names of models in a message
_URL: Final = re.compile(r"https?://[^/\s@?#]+(/[^\s?#]*)?")
_PROMPT: Final = "Say ok."
_TOKENS: Final = 16
_HINT_PATH: Final = "the URL of most servers ends with /v1"


class KeyRefused(PaddockError):
    """The server needs a key, or another one."""


@frozen
class Tried:
    """The models of a server, and the name of the model that answered."""

    models: tuple[str, ...]  # empty if the server has no list
    answered: str | None = None  # the model that answered a prompt


@frozen
class _Answer:
    status: int
    body: Any  # parsed JSON; None if it is none

    @property
    def reason(self) -> str:
        """The server's own words about an error."""
        error = self.body.get("error", self.body) if isinstance(self.body, dict) else {}
        words = error.get("message", "") if isinstance(error, dict) else error
        return one_line(mask(str(words)), 300)


def try_model(url: str, key: Secret | None, model: str | None, *, seconds: float = _SECONDS) -> Tried:
    """List the models of a server and let one answer. Raise an error with the cause.

    Without ``model`` a server with a single model is asked for that one, and another server only for its list.
    """
    server = _Server(url.strip().rstrip("/"), key, time.monotonic() + seconds)
    listed = server.ask("GET", "/models")
    models = tuple(_names(listed.body)) if listed.status == httpx.codes.OK else ()
    if listed.status != httpx.codes.OK and not (model and listed.status in (404, 405)):
        raise server.refused(listed)  # a server may lack the list, but not accept a key for the list alone
    if listed.status == httpx.codes.OK and not isinstance(listed.body, dict):
        raise server.not_json()
    chosen = model or (models[0] if len(models) == 1 else None)
    if chosen is None:
        return Tried(models)
    server.complete(chosen, models)
    return Tried(models, chosen)


class _Server:
    """A model server, with a deadline for its answers."""

    def __init__(self, url: str, key: Secret | None, end: float) -> None:
        if not _URL.fullmatch(url):
            raise BadInput(
                f"{one_line(url, 200)} is not the URL of a model server", hint="it looks like https://host:4000/v1"
            )
        if key is not None and not (key.reveal().isascii() and key.reveal().isprintable()):
            raise BadInput("the key of the model contains characters that no key has", hint="paste it again")
        self._url = url
        self._key = key
        self._end = end
        # Reading the CA certificates takes a while, and without TLS nothing needs them.
        self._trust = (
            ssl.create_default_context() if url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )

    def complete(self, model: str, models: Sequence[str]) -> None:
        """Let a model answer a short prompt."""
        asked = {"model": model, "messages": [{"role": "user", "content": _PROMPT}]}
        answer = self.ask("POST", "/chat/completions", {**asked, "max_tokens": _TOKENS})
        if answer.status == httpx.codes.BAD_REQUEST and "max_tokens" in answer.reason:
            # Newer models of OpenAI know the limit only by this name.
            answer = self.ask("POST", "/chat/completions", {**asked, "max_completion_tokens": _TOKENS})
        if answer.status == httpx.codes.OK:
            if not isinstance(answer.body, dict) or not answer.body.get("choices"):
                raise self.not_json()
            return
        if answer.status in (400, 404) and model not in models and (models or "model" in answer.reason.lower()):
            raise self._unknown(model, models)
        raise self.refused(answer)

    def _unknown(self, model: str, models: Sequence[str]) -> PaddockError:
        near = [*get_close_matches(model, models, n=_SHOWN, cutoff=0.5)] or list(models[:_SHOWN])
        more = f", and {len(models) - len(near)} more" if len(models) > len(near) else ""
        hint = f"it has {', '.join(near)}{more}" if near else "look up the name of the model at its provider"
        return PaddockError(f"{self._url} has no model {one_line(model, 100)}", hint=hint)

    def refused(self, answer: _Answer) -> PaddockError:
        """Return the error for an answer other than 200."""
        said = f": {answer.reason}" if answer.reason else ""
        match answer.status:
            case 401 | 403 if self._key is None:
                return KeyRefused(f"{self._url} needs a key{said}", hint="give the key of this server")
            case 401 | 403:
                hint = "check that the key is complete, not expired, and one of this server"
                return KeyRefused(f"{self._url} refuses the key{said}", hint=hint)
            case 404 | 405:
                return PaddockError(f"{self._url} has no API for models", hint=_HINT_PATH)
            case 402 | 429:
                words = f"{self._url} does not let the key ask now ({answer.status}){said}"
                return PaddockError(words, hint="wait a while, or check the credit of the account")
            case status if 300 <= status < 400:
                return PaddockError(f"{self._url} sends its callers elsewhere ({status})", hint=_HINT_PATH)
        return PaddockError(
            f"{self._url} answers {answer.status}{said}", hint="the log of the model server may say more"
        )

    def not_json(self) -> PaddockError:
        return PaddockError(f"{self._url} answers something that no model server answers", hint=_HINT_PATH)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> _Answer:
        """Send a request, and wait at most until the end of the time, however slowly the server sends."""
        left = self._end - time.monotonic()
        outcome: list[_Answer | Exception] = []

        def exchange() -> None:
            try:
                outcome.append(self._exchange(method, path, body, max(left, 0.1)))
            except Exception as error:  # noqa: BLE001 - raised below, in the thread of the caller
                outcome.append(error)

        # A timeout of the library is about a single read, so a server could send a byte now and then for hours.
        thread = threading.Thread(target=exchange, daemon=True)
        thread.start()
        thread.join(max(left, 0))
        match outcome:
            case [_Answer() as answer]:
                return answer
            case [PaddockError() as error]:
                raise error
            case [httpx.HTTPError() | httpx.InvalidURL() | ssl.SSLError() as error]:
                raise self._unanswered(error) from None
            case [Exception() as error]:
                raise error
        raise self._unanswered(httpx.ReadTimeout("it took too long"))

    def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> _Answer:
        headers = {"Accept-Encoding": "identity"}  # a small response could expand to any size
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key.reveal()}"
        with (
            # A proxy of the environment would see the key, and the agent will not use it.
            httpx.Client(verify=self._trust, timeout=seconds, trust_env=False) as client,
            client.stream(method, f"{self._url}{path}", json=body, headers=headers) as response,
        ):
            received = bytearray()
            for part in response.iter_raw():
                received += part
                if len(received) > _LARGEST:
                    raise PaddockError(f"the answer of {self._url} is over {_LARGEST >> 20} MiB", hint=_HINT_PATH)
        return _Answer(response.status_code, _parsed(bytes(received)))

    def _unanswered(self, error: Exception) -> PaddockError:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                hint = "add the CA of the server to the CA certificates of this computer and of the agent's machine"
                return PaddockError(f"the certificate of {self._url} is not trusted: {cause.verify_message}", hint=hint)
            cause = cause.__cause__ or cause.__context__
        why = one_line(mask(str(error)), 200) or type(error).__name__
        return PaddockError(
            f"{self._url} does not answer: {why}", hint="check that the server is up and that the URL is right"
        )


def _parsed(received: bytes) -> Any:
    try:
        return bounded.parsed(received)
    except ValueError:
        return None


def _names(body: Any) -> Iterator[str]:
    rows = body.get("data") if isinstance(body, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("id"), str):
            yield one_line(row["id"], 200)
