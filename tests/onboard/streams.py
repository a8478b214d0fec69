"""Send a folder as a stream and receive it again: with the programs that run on machines, or in this process."""

from __future__ import annotations

import inspect
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from paddock.channels.local import LocalGuest
from paddock.channels.onboard import streaming
from paddock.onboard.stream import receive as receiving
from paddock.onboard.stream import send as sending
from paddock.onboard.stream.receive import receive
from paddock.onboard.stream.send import Sender, SendState

SOURCE = inspect.getsource(sending) + inspect.getsource(receiving)
# The argument is an order, and the input a stream; what a machine does, without the restoration.
RECEIVE = """
import json, resource, sys
from paddock.onboard.stream.layout import BadStream
from paddock.onboard.stream.receive import MEMORY, NoRoom, receive
resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
try:
    manifest = receive(json.loads(sys.argv[1]), sys.stdin.buffer)
except BadStream as error:
    sys.exit(f"the stream cannot be used: {error}")
except (NoRoom, OSError) as error:
    sys.exit(f"the stream cannot be written: {error}")
json.dump({key: value for key, value in manifest.items() if key != "entries"}, sys.stdout)
"""
LIMIT = 1 << 40
Json = dict[str, Any]


def order(home: Path, **more: Any) -> str:
    about = {"agent": "home_hermes", "kind": "hermes", "version": "0.19.0"}
    staging = home.parent / "staging"
    staging.mkdir(exist_ok=True, mode=0o700)
    words = {"home": str(home), "staging": str(staging), "about": about}
    return json.dumps({**words, "rebuilt": [], "databases": ["**/*.db"], "growing": [], **more})


def sent(home: Path, **more: Any) -> bytes:
    """Return the stream of a folder."""
    with streaming(LocalGuest(), SendState(json.loads(order(home, **more)))) as pipes:
        stream = pipes.source.read()
        result = pipes.end()
    assert result.ok, result.err
    return stream


def sent_here(home: Path, **more: Any) -> bytes:
    """Return the stream of a folder, sent by this process. That takes a tenth of the time."""
    with tempfile.TemporaryFile() as out:
        Sender(json.loads(order(home, **more)), io.FileIO(out.fileno(), "w", closefd=False)).send()
        out.seek(0)
        return out.read()


def received(stream: bytes, folder: Path, limit: int = LIMIT) -> Json:
    """Unpack a stream and return what the program reports. Raise if it refuses the stream."""
    words = json.dumps({"folder": str(folder), "owner": None, "limit": limit})
    command = [sys.executable, "-c", RECEIVE, words]
    done = subprocess.run(command, input=stream, capture_output=True, check=False, timeout=120)
    if done.returncode:
        raise Refused(done.stderr.decode())
    found: Json = json.loads(done.stdout)
    return found


def receive_here(stream: bytes, folder: Path) -> None:
    """Unpack a stream in this process."""
    receive({"folder": str(folder), "owner": None, "limit": LIMIT}, io.BytesIO(stream))


class Refused(Exception):
    """The receiving program refuses a stream."""
