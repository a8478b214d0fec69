"""One request to a model server, before its address and key are written into a file."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from paddock.base.errors import BadInput, PaddockError
from paddock.base.secret import Secret
from paddock.kinds.hermes.providers import PROVIDERS, named
from paddock.setup.trial import Tried, try_model
from pvebox.standins import model as stand_in
from security.tls_server import Certificate, make_certificate
from sshd import free_port

KEY: Final = "sk-canary-of-the-model"
Answer = tuple[int, bytes]
Answers = Mapping[str, Answer | Callable[[bytes], Answer]]
MODELS: Final = {"data": [{"id": name} for name in ("small", "large", "large-2", "embed")]}
CHAT: Final = {"choices": [{"message": {"role": "assistant", "content": "ok"}}]}


def encoded(status: int, body: Any) -> Answer:
    return status, json.dumps(body).encode()


class Raw:
    """A server that answers each path as a test says, and keeps what it received."""

    def __init__(self, answers: Answers, trust: ssl.SSLContext | None) -> None:
        self._answers = answers
        self._trust = trust
        self.received: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        scheme = "https" if trust else "http"
        self.url = f"{scheme}://127.0.0.1:{self.listener.getsockname()[1]}/v1"

    def serve(self) -> None:
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            with suppress(OSError), plain:
                plain.settimeout(5)
                self._answer(self._trust.wrap_socket(plain, server_side=True) if self._trust else plain)

    def _answer(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(body) < length:
            body += connection.recv(65536)
        self.received.append(head + b"\r\n\r\n" + body)
        path = head.split()[1].decode().removeprefix("/v1")
        answer = self._answers.get(path, (404, b"<html>not found</html>"))
        status, content = answer(body) if callable(answer) else answer
        more = b"Location: http://127.0.0.1:1/\r\n" if 300 <= status < 400 else b""
        first = f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\nConnection: close\r\n".encode()
        connection.sendall(first + more + b"\r\n" + content)
        connection.close()


@contextmanager
def serving(
    answers: Mapping[str, Answer | Callable[[bytes], Answer]], trust: ssl.SSLContext | None = None
) -> Iterator[Raw]:
    server = Raw(answers, trust)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        with suppress(OSError):
            server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()
        thread.join(10)


def refusal(url: str, model: str | None = None, key: str | None = KEY, **more: Any) -> str:
    """Return what a person is told. It never contains the key."""
    with pytest.raises(PaddockError) as caught:
        try_model(url, Secret(key) if key else None, model, **more)
    assert caught.value.hint
    told = f"{caught.value.message} | {caught.value.hint}"
    assert KEY not in told
    return told


def test_a_model_server_lists_its_models_and_answers() -> None:
    with stand_in.serve("127.0.0.1", 0, KEY) as url:
        assert try_model(url, Secret(KEY), None) == Tried(("stand-in",), "stand-in")
        assert try_model(f" {url}/ ", Secret(KEY), "stand-in") == Tried(("stand-in",), "stand-in")


def test_a_server_with_several_models_is_asked_for_the_chosen_one() -> None:
    with serving({"/models": encoded(200, MODELS), "/chat/completions": encoded(200, CHAT)}) as server:
        assert try_model(server.url, Secret(KEY), None) == Tried(("small", "large", "large-2", "embed"))
        assert len(server.received) == 1
        assert try_model(server.url, Secret(KEY), "large").answered == "large"
        assert f"Authorization: Bearer {KEY}".encode() in server.received[-1]
        assert try_model(server.url, None, "large").answered == "large"
        assert b"Authorization" not in server.received[-1]


def test_a_wrong_key_and_no_key_are_told_apart() -> None:
    with stand_in.serve("127.0.0.1", 0, "sk-other") as url:
        assert "refuses the key: Incorrect API key provided." in refusal(url)
        assert "needs a key" in refusal(url, key=None)


def test_a_key_that_may_list_and_not_ask_is_refused() -> None:
    denied = encoded(403, {"error": {"message": f"key {KEY} may not use this model"}})
    with serving({"/models": encoded(200, MODELS), "/chat/completions": denied}) as server:
        assert "refuses the key: key ••• may not use this model" in refusal(server.url, "large")


def test_a_url_without_its_path_has_no_api() -> None:
    with stand_in.serve("127.0.0.1", 0, None) as url:
        for model in (None, "stand-in"):
            assert "has no API for models | the URL of most servers ends with /v1" in refusal(
                url.removesuffix("/v1"), model
            )


def test_a_server_without_a_list_of_models_is_asked_at_once() -> None:
    with serving({"/chat/completions": encoded(200, CHAT)}) as server:
        assert try_model(server.url, Secret(KEY), "large") == Tried((), "large")


def test_an_unknown_model_is_told_with_some_that_exist() -> None:
    unknown = encoded(404, {"error": {"message": "The model does not exist"}})
    with serving({"/models": encoded(200, MODELS), "/chat/completions": unknown}) as server:
        assert "has no model larg | it has large, large-2, and 2 more" in refusal(server.url, "larg")
        assert "it has small, large, large-2, embed" in refusal(server.url, "zzz")
    with serving({"/chat/completions": unknown}) as server:
        assert "has no model larg | look up" in refusal(server.url, "larg")


def test_a_model_that_wants_the_newer_name_of_the_limit_answers() -> None:
    def complete(body: bytes) -> Answer:
        if b"max_completion_tokens" in body:
            return encoded(200, CHAT)
        return encoded(400, {"error": {"message": "Unsupported parameter: 'max_tokens'"}})

    with serving({"/models": encoded(200, MODELS), "/chat/completions": complete}) as server:
        assert try_model(server.url, Secret(KEY), "large").answered == "large"


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ((200, b"<html>Welcome"), "answers something that no model server answers"),
        ((200, b"[" * 100_000), "answers something that no model server answers"),
        ((200, b'"text"'), "answers something that no model server answers"),
        ((200, b" " * (9 << 20)), "is over 8 MiB"),
        ((302, b""), "sends its callers elsewhere"),
        ((429, b'{"error":{"message":"slow down"}}'), "does not let the key ask now (429): slow down"),
        ((500, b'{"error":"\x1b[2Jboom"}'), "answers 500"),
        ((500, b'{"error":{"message":"\\u001b[2Jboom"}}'), r"answers 500: \x1b[2Jboom"),
    ],
    ids=["html", "deep", "text", "large", "redirect", "limit", "bad json", "control characters"],
)
def test_a_broken_answer_is_reported(listed: Answer, told: str) -> None:
    with serving({"/models": listed}) as server:
        assert told in refusal(server.url)


@pytest.mark.parametrize("body", [b"{}", b"null", b'{"choices":[]}', b"nothing"])
def test_an_answer_without_a_reply_is_no_answer(body: bytes) -> None:
    with serving({"/models": encoded(200, MODELS), "/chat/completions": (200, body)}) as server:
        assert "answers something that no model server answers" in refusal(server.url, "large")


def test_an_address_without_a_server_does_not_answer() -> None:
    assert "does not answer" in refusal(f"http://127.0.0.1:{free_port()}/v1")
    assert "does not answer" in refusal("http://model.invalid/v1")


def test_a_server_that_sends_a_byte_now_and_then_is_left() -> None:
    def drip(listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            for byte in b"HTTP/1.1 200 OK\r\n" + b"X" * 1000:
                connection.sendall(bytes([byte]))
                time.sleep(0.2)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        start = time.monotonic()
        assert "does not answer: it took too long" in refusal(
            f"http://127.0.0.1:{listener.getsockname()[1]}", seconds=1
        )
        assert time.monotonic() - start < 10
        listener.shutdown(socket.SHUT_RDWR)


def test_a_certificate_that_nobody_knows_gets_no_key(tmp_path: Path) -> None:
    made: Certificate = make_certificate(tmp_path, "model")
    with serving({"/models": encoded(200, MODELS)}, made.context()) as server:
        assert "is not trusted: self-signed certificate | add the CA" in refusal(server.url)
        assert server.received == []


def test_no_proxy_of_the_environment_sees_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({}) as proxy, stand_in.serve("127.0.0.1", 0, KEY) as url:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        assert try_model(url, Secret(KEY), None).answered == "stand-in"
        assert proxy.received == []


@pytest.mark.parametrize("url", ["", "host:4000", "ftp://host/v1", "https://user:key@host/v1", "http://host/v1?key=x"])
def test_another_text_is_not_the_url_of_a_model_server(url: str) -> None:
    with pytest.raises(BadInput, match="is not the URL of a model server"):
        try_model(url, None, None)


@pytest.mark.parametrize("key", ["schlüssel-7", "sk-1\r\nX-Header: 1", "sk-\x00"])
def test_a_key_with_other_characters_is_refused(key: str) -> None:
    with pytest.raises(BadInput, match="characters that no key has"):
        try_model("http://127.0.0.1:1/v1", Secret(key), None)


def test_the_named_providers_are_those_of_hermes() -> None:
    for provider in named():
        assert provider.key_env in PROVIDERS[provider.name].keys
        assert provider.base_url is None or provider.base_url.startswith("https://")
