"""Answer the questions on stdin, all at once. Runs beside the agent, as its user and with its environment."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
import threading
import time
from typing import Any

from paddock.onboard.facts.threads import in_thread, together

BLOCK = 1 << 16
MOST = 2 << 20  # bytes of a file
LAST = 2000  # characters of a program's output
CONNECT_SECONDS = 3
LOGS = 5  # parts of a log
LARGEST_LOG = 6 << 20  # bytes of each part; Hermes begins a new one after 5 MiB
LINES = 500  # of a log
SAMPLE = 200  # lines at the beginning of a part; some have no time
GIVE_WAY = 5  # seconds; a prompt that takes longer waits for its model rather than for this machine
Json = dict[str, Any]

answered = threading.Event()  # nothing has to give way to the prompt any more


def main() -> None:
    """Load the modules that the arguments name, then answer the questions. The prompt is asked alone at first."""
    for name in sys.argv[1:]:
        __import__(name)
    questions = json.load(sys.stdin)
    if not any(question.get("first") for question in questions):
        answered.set()
    print(json.dumps({"uid": os.geteuid(), "answers": together(timed, questions)}))


def timed(question: Json) -> Json:
    first = question.get("first")
    if not first:
        answered.wait(GIVE_WAY)
    start = time.monotonic()
    found = KINDS[question["kind"]](question)
    seconds = time.monotonic() - start
    if first:
        print(flush=True)  # tells the program that waits for the answers
        answered.set()
    return {"found": found, "seconds": seconds}


def ask(question: Json) -> Json:
    name = question["bearer"]
    if name and name not in os.environ:
        if not question.get("keyless"):
            return {"refused": f"there is no {name} in the agent's environment"}
        name = None
    secret = os.environ[name] if name else None
    if not name and (reply := plainly(question)):
        return reply
    from paddock.onboard.loopback import request

    if secret and question["login"] and ":" in secret:
        import base64

        question["headers"]["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
        secret = None
    # Only the agent itself gets a key at its own ports. Root may listen for it in a container.
    return request(question, secret, proxies=True, owners=[os.geteuid()] if name and question["own"] else ())


def plainly(question: Json) -> Json | None:
    """Return the reply to a simple request on loopback: a status of 200, in an answer with a length. None otherwise.

    The library takes a tenth of a second to load. It repeats the request if it is not answered in this simple way.
    """
    host, _, path = question["url"].removeprefix("http://127.0.0.1:").partition("/")
    if question["method"] != "GET" or question["body"] is not None or question["headers"] or not host.isdigit():
        return None
    try:
        with socket.create_connection(("127.0.0.1", int(host)), timeout=question["seconds"]) as server:
            server.sendall(f"GET /{path} HTTP/1.0\r\nHost: 127.0.0.1:{host}\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while (block := server.recv(BLOCK)) and len(data) <= MOST:
                data += block
    except (OSError, ValueError):
        return None
    head, _, body = data.partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").lower().split("\r\n")
    if status.split()[1:2] != ["200"] or f"content-length: {len(body)}" not in fields:
        return None
    return {"status": 200, "body": decoded(body)}


def read_file(question: Json) -> Json:
    try:
        with open(question["path"], "rb") as file:
            data = file.read(MOST + 1)
        if len(data) > MOST:
            return {"refused": f"{question['path']}: longer than {MOST >> 20} MiB and was cut"}
        return {"content": decoded(data)}
    except FileNotFoundError:
        return {"content": None}
    except OSError as error:
        return {"refused": f"{question['path']}: {error.strerror}"}


def decoded(data: bytes) -> object:
    """Return the JSON value of the bytes, or their text if they are not JSON."""
    # `loopback` has the same function, and takes long to load.
    text = data.decode(errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def databases(question: Json) -> Json:
    import glob

    found = {}
    for pattern in question["patterns"]:
        for path in sorted(glob.glob(os.path.join(question["below"], pattern), recursive=True)):
            found[os.path.relpath(path, question["below"])] = quick_check(path)
    return {"content": found}


def quick_check(path: str) -> str:
    import sqlite3
    import urllib.parse

    try:
        # Read-only, with a reader's locks: writers are not disturbed, and their journal is read too.
        database = sqlite3.connect("file:" + urllib.parse.quote(path) + "?mode=ro", uri=True, timeout=5)
        try:
            return "; ".join(str(row[0]) for row in database.execute("PRAGMA quick_check(3)"))
        finally:
            database.close()
    except sqlite3.Error as error:
        return str(error)


def attempt(question: Json) -> Json:
    import subprocess

    try:
        child = subprocess.Popen(
            question["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        return {"refused": f"{question['argv'][0]}: {error.strerror}"}
    with child:
        out, err = in_thread(last, child.stdout), in_thread(last, child.stderr)
        try:
            child.wait(question["seconds"])
        except subprocess.TimeoutExpired:
            child.kill()
            return {"refused": f"{question['argv'][0]} did not end within {question['seconds']:g} s"}
        finally:
            out()
            err()
    return {"content": {"code": child.returncode, "out": out(), "err": err()}}


def last(stream: Any) -> str:
    """Return the end of a program's output. All of it is read, but not kept."""
    kept = b""
    for block in iter(lambda: stream.read1(BLOCK), b""):
        kept = (kept + block)[-4 * LAST :]
    return kept.decode(errors="replace")[-LAST:]


def write(question: Json) -> Json:
    # The library's temporary files take longer to load than this check takes.
    if question.get("or_file") and os.path.exists(question["folder"]) and not os.path.isdir(question["folder"]):
        return {"content": 0}
    path = os.path.join(question["folder"], f".paddock-verify-{os.urandom(8).hex()}")
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            left = os.urandom(BLOCK)
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
        finally:
            os.close(file)
            os.unlink(path)
    except OSError as error:
        return {"refused": f"{question['folder']}: {error.strerror}"}
    return {"content": BLOCK}


def connections(question: Json) -> Json:
    endpoints = question["endpoints"] or name_servers()[:1]
    return {"content": together(kernel_connection if question["kernel"] else connection, endpoints)}


def name_servers() -> list[list[Any]]:
    try:
        with open("/etc/resolv.conf", errors="replace") as file:
            lines = [line.split() for line in file.read(BLOCK).split("\n")]
    except OSError:
        return []
    return [[words[1], 53] for words in lines if len(words) > 1 and words[0] == "nameserver"]


def connection(endpoint: list[Any]) -> Json:
    """A filter on this machine refuses a datagram with EPERM, which no network does."""
    host, number = endpoint
    found = {"host": host, "port": number}
    errors: dict[str, int | None] = {}
    for name, kind in (("sent", socket.SOCK_DGRAM), ("connected", socket.SOCK_STREAM)):
        try:
            family, _, _, _, address = socket.getaddrinfo(host, number, type=kind)[0]
            with socket.socket(family, kind) as tried:
                tried.settimeout(CONNECT_SECONDS)
                tried.connect(address)
                if kind == socket.SOCK_DGRAM:
                    tried.send(b"")
            errors[name] = None
        except OSError as error:
            errors[name] = error.errno or errno.ETIMEDOUT
    return {**found, **errors}


def kernel_connection(endpoint: list[Any]) -> Json:
    """Below a socket of SMC is one of TCP that belongs to the kernel."""
    host, number = endpoint
    found: Json = {"host": host, "port": number}
    for name, family, protocol in (("protocol 256", None, 256), ("family 43", 43, None)):
        try:
            internet, _, _, _, address = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
            other = int(internet == socket.AF_INET6) if protocol is None else protocol
            made = socket.socket(internet if family is None else family, socket.SOCK_STREAM, other)
            # Python knows the addresses of this family only.
            with socket.socket(internet, socket.SOCK_STREAM, fileno=made.detach()) as tried:
                tried.settimeout(CONNECT_SECONDS)
                tried.connect(address)
            found[name] = None
        except OSError as error:
            found[name] = error.errno or errno.ETIMEDOUT
    return found


def log(question: Json) -> Json:
    """Read the log from its newest part backwards, until a line is older than the agent's process."""
    path, since = question["path"], question["since"]
    parts, whole = [], False
    for name in [path, *(f"{path}.{number}" for number in range(1, LOGS))]:
        part = tail(name)
        if part is None:
            whole = True
            break
        parts.append(part)
        if older_than(part, since):
            whole = True
            break
    words = tuple(question["words"])
    found = [
        line[:LAST]
        for part in reversed(parts)
        for line in part
        if any(word in line for word in words) and (written(line) or 0) >= since - 1
    ]
    return {"content": {"lines": found[-LINES:], "whole": whole}}


def tail(path: str) -> list[str] | None:
    """Return the last lines of a file, or None if there is none. The agent may have put anything in its place."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return []
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - LARGEST_LOG, 0))
            return file.read(LARGEST_LOG).decode(errors="replace").split("\n")
    except FileNotFoundError:
        return None
    except OSError:
        return []


def older_than(lines: list[str], since: float) -> bool:
    times = (moment for line in lines[:SAMPLE] if (moment := written(line)) is not None)
    return any(moment < since - 1 for moment in times)


def written(line: str) -> float | None:
    """Return the time at the beginning of a line, in the local time of the agent."""
    try:
        return time.mktime(time.strptime(line[:19], "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def port(question: Json) -> Json:
    from paddock.onboard.loopback import connect

    return connect(question["port"], CONNECT_SECONDS)


KINDS = {
    "request": ask,
    "file": read_file,
    "databases": databases,
    "attempt": attempt,
    "write": write,
    "port": port,
    "connect": connections,
    "log": log,
}
