"""Answer requests. A request names a class of `paddock.onboard`, and has the fields of an instance.

An answer is a line of its own on stdout: a NUL byte, and JSON. `value` is the result; or `code` says what kind of
refusal it is, and `said` why, for a person. Nothing else is written to the answers: what programs print goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

from paddock.onboard.program.frozen import decoded, encoded
from paddock.onboard.program.refusal import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

VERSION = 1
UNEXPECTED = 70


class Payload:
    """The bytes that follow a request: frames like those of requests, up to an empty one."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = 0
        self._ended = False

    def frames(self) -> Iterator[bytes]:
        """Yield what the other side sends, as it was sent."""
        while words := self._stream.readline(64).split():
            if words[1] == b"0":
                break
            yield self._stream.read(int(words[1]))
        self._ended = True

    def read(self, size: int = -1) -> bytes:
        """Return so many bytes, or all that are left; fewer only at the end."""
        parts: list[bytes] = []
        while size and not self._ended:
            if not self._left:
                words = self._stream.readline(64).split()
                self._left = int(words[1]) if words else 0
                self._ended = not self._left
                if not words:
                    raise Refusal("the connection ended within the data", 1)
                continue
            data = self._stream.read(self._left if size < 0 else min(size, self._left))
            if not data:
                raise Refusal("the connection ended within the data", 1)
            self._left -= len(data)
            size -= len(data) if size > 0 else 0
            parts.append(data)
        return b"".join(parts)


def served(request: Any, stream: IO[bytes]) -> int:
    """Carry out one request, print its answer, and return the exit code that it stands for."""
    payload = Payload(stream)
    _answers()
    before = os.umask(0o077)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)  # an earlier request may have given way to the agent
    try:
        value = _performed(request, payload)
        answer: dict[str, Any] = {"code": 0, "value": encoded(value)}
    except Refusal as refusal:
        answer = {"code": refusal.code, "said": str(refusal)}
    except OSError as error:
        answer = {"code": 1, "said": f"{error.filename or request.get('name')}: {error.strerror or error}"}
    except Exception as error:  # noqa: BLE001
        import traceback

        traceback.print_exc()
        answer = {"code": UNEXPECTED, "said": f"{type(error).__name__}: {error}"}
    finally:
        os.umask(before)
    if not _streams(request):
        _write(answer)
    elif answer["code"]:
        print(answer["said"], file=sys.stderr)
    with suppress(Refusal):
        while payload.read(1 << 20):  # what was not read must not be taken for the next request
            pass
    return int(answer["code"])


def _streams(request: Any) -> bool:
    """Whether the output is a stream, which has no answer after it."""
    module = sys.modules.get(str(request.get("module")))
    return hasattr(getattr(module, str(request.get("name")), None), "streams")


def say(what: Any) -> None:
    """Print something before the answer."""
    _write({"say": what})


def output() -> IO[bytes]:
    """Return the output, for a request whose answer is a stream. It has `streams`."""
    return _answers()


def _write(answer: dict[str, Any]) -> None:
    answers = _answers()
    answers.write(b"\0" + json.dumps(answer).encode() + b"\n")
    answers.flush()


def _performed(request: Any, payload: Payload) -> Any:
    if request["version"] != VERSION:
        raise Refusal(f"this program knows version {VERSION} of requests, not {request['version']}", UNEXPECTED)
    module, name = request["module"], request["name"]
    __import__(module)
    return decoded(getattr(sys.modules[module], name), request["given"], name).perform(payload)


_opened: list[IO[bytes]] = []


def _answers() -> IO[bytes]:
    """Return where answers go. From the first time on, stdout is stderr for everything else."""
    if not _opened:
        _opened.append(os.fdopen(os.dup(1), "wb"))  # no program inherits it
        os.dup2(2, 1)
    return _opened[0]
