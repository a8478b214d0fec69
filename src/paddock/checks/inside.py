"""Runs beside the agent, by itself, as its user, with its environment: answers the questions on stdin, all at once."""

from __future__ import annotations

import glob
import http.client
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BLOCK = 1 << 16
MOST = 2 << 20  # bytes of an answer or a file
LAST = 2000  # characters of what a program said
Json = dict[str, Any]


def main() -> None:
    questions = json.load(sys.stdin)
    with ThreadPoolExecutor(max_workers=len(questions) or 1) as pool:
        answers = list(pool.map(timed, questions))
    print(json.dumps({"uid": os.geteuid(), "answers": answers}))


def timed(question: Json) -> Json:
    start = time.monotonic()
    found = KINDS[question["kind"]](question)
    return {"found": found, "seconds": time.monotonic() - start}


def request(question: Json) -> Json:
    headers = dict({"Content-Type": "application/json"}, **question["headers"])
    if question["bearer"]:
        if question["bearer"] not in os.environ:
            return {"refused": f"there is no {question['bearer']} in the agent's environment"}
        headers["Authorization"] = "Bearer " + os.environ[question["bearer"]]
    body = None if question["body"] is None else json.dumps(question["body"]).encode()
    asked = urllib.request.Request(question["url"], body, headers, method=question["method"])
    # Loopback is never asked through a proxy.
    local = urllib.parse.urlsplit(question["url"]).hostname in ("127.0.0.1", "localhost", "::1")
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))
    try:
        with opener.open(asked, timeout=question["seconds"]) as response:
            return answered(question["url"], response.status, response)
    except urllib.error.HTTPError as error:
        return answered(question["url"], error.code, error)
    except (OSError, http.client.HTTPException) as error:
        return {"refused": f"{question['url']}: {getattr(error, 'reason', error)}"}


def answered(url: str, status: int, response: Any) -> Json:
    data = response.read(MOST + 1)
    if len(data) > MOST:
        return {"refused": f"{url}: its answer is longer than {MOST >> 20} MiB and was cut"}
    return {"status": status, "body": decoded(data)}


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


def databases(question: Json) -> Json:
    found = {}
    for pattern in question["patterns"]:
        for path in sorted(glob.glob(os.path.join(question["below"], pattern), recursive=True)):
            found[os.path.relpath(path, question["below"])] = quick_check(path)
    return {"content": found}


def quick_check(path: str) -> str:
    try:
        # Read-only, and with the locks of a reader: whoever writes goes on, and what is in its journal is seen.
        database = sqlite3.connect("file:" + urllib.parse.quote(path) + "?mode=ro", uri=True, timeout=5)
        try:
            return "; ".join(str(row[0]) for row in database.execute("PRAGMA quick_check(3)"))
        finally:
            database.close()
    except sqlite3.Error as error:
        return str(error)


def attempt(question: Json) -> Json:
    try:
        child = subprocess.Popen(
            question["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        return {"refused": f"{question['argv'][0]}: {error.strerror}"}
    with child, ThreadPoolExecutor(2) as pool:
        out, err = pool.submit(last, child.stdout), pool.submit(last, child.stderr)
        try:
            child.wait(question["seconds"])
        except subprocess.TimeoutExpired:
            child.kill()
            return {"refused": f"{question['argv'][0]} did not end within {question['seconds']:g} s"}
    return {"content": {"code": child.returncode, "out": out.result(), "err": err.result()}}


def last(stream: Any) -> str:
    """The end of what a program says, however much that is."""
    kept = b""
    for block in iter(lambda: stream.read1(BLOCK), b""):
        kept = (kept + block)[-4 * LAST :]
    return kept.decode(errors="replace")[-LAST:]


def write(question: Json) -> Json:
    try:
        with tempfile.NamedTemporaryFile(dir=question["folder"], prefix=".paddock-verify-") as file:
            file.write(os.urandom(BLOCK))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return {"refused": f"{question['folder']}: {error.strerror}"}
    return {"content": BLOCK}


def port(question: Json) -> Json:
    try:
        socket.create_connection(("127.0.0.1", question["port"]), timeout=3).close()
    except OSError as error:
        return {"refused": str(error)}
    return {"content": question["port"]}


def decoded(data: bytes) -> object:
    text = data.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


KINDS = {
    "request": request,
    "file": read_file,
    "databases": databases,
    "attempt": attempt,
    "write": write,
    "port": port,
}

main()
