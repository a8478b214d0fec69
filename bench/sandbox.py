"""Measure the speed of the sandbox: `python bench/sandbox.py` as root. Without root it measures only requests.

Prints each figure with its limit. The exit code is 1 if a limit is missed.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import speed

from pvebox import unable_to_run

Json = Any


class Client:
    """A persistent connection to a sandbox."""

    def __init__(self, ready: dict[str, Json], name: str = "paddock@pve!deploy") -> None:
        where = urlsplit(ready["url"])
        trust = ssl.create_default_context(cafile=ready["ca"])
        self._connection = HTTPSConnection(str(where.hostname), where.port, context=trust)
        secret = ready["tokens"][name]
        self._headers = {"Authorization": f"PVEAPIToken={name}={secret}"}
        self._last = time.monotonic()

    def ask(self, method: str, path: str, **params: Json) -> Json:
        """Send a request and return the data of the answer."""
        headers = {**self._headers, "Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode(params) if params else None
        # The server closes a connection after five idle seconds.
        if time.monotonic() - self._last > 4:
            self._connection.close()
        self._connection.request(method, f"/api2/json{path}", body, headers if body else self._headers)
        answer = self._connection.getresponse()
        said = answer.read()
        self._last = time.monotonic()
        if answer.status != 200:
            raise SystemExit(f"{method} {path}: {answer.status} {answer.reason}")
        return json.loads(said)["data"]

    def task(self, method: str, path: str, **params: Json) -> float:
        """Send a request that starts a task, and return the seconds until the task has succeeded."""
        began = time.perf_counter()
        upid = self.ask(method, path, **params)
        while (status := self.ask("GET", f"/nodes/pve/tasks/{upid}/status"))["status"] != "stopped":
            time.sleep(0.01)
        if status["exitstatus"] != "OK":
            raise SystemExit(f"{upid}: {status['exitstatus']}")
        return time.perf_counter() - began


@contextmanager
def sandbox(runtime: str, directory: Path) -> Iterator[dict[str, Json]]:
    """Run a sandbox while the block is open. Yields its ready line."""
    state = directory / runtime
    command = [sys.executable, "-m", "pvebox"]
    server = subprocess.Popen(
        [*command, "serve", "--runtime", runtime, "--state", str(state), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield json.loads(server.stdout.readline() if server.stdout else "")
    finally:
        server.terminate()
        server.wait(20)
        subprocess.run([*command, "clean", "--state", str(state)], check=True)


def calls_per_second(ready: dict[str, Json], seconds: float = 4.0) -> float:
    """Return how many calls per second the API answers to two clients, without work on containers."""
    first = Client(ready)
    template = {"ostemplate": ready["base"], "rootfs": "local-lvm:2", "features": "nesting=1"}
    first.task("POST", "/nodes/pve/lxc", vmid=100, **template)
    counts = [0, 0]
    until = time.perf_counter() + seconds

    def ask_on(number: int) -> None:
        client = Client(ready)
        while time.perf_counter() < until:
            client.ask("GET", "/nodes/pve/lxc/100/config")
            counts[number] += 1

    threads = [threading.Thread(target=ask_on, args=(number,)) for number in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def unpacking(archive: Path, directory: Path) -> float:
    """Return the seconds that tar needs to unpack the archive into an empty directory."""
    target = directory / "unpacked"
    target.mkdir()
    began = time.perf_counter()
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", target, "--numeric-owner"], check=True)
    took = time.perf_counter() - began
    subprocess.run(["rm", "-rf", target], check=True)
    return took


def to_banner(client: Client, vmid: int) -> None:
    """Wait until a container's ssh server sends its banner."""
    while True:
        for interface in client.ask("GET", f"/nodes/pve/lxc/{vmid}/interfaces") or ():
            if interface["name"] != "eth0" or "inet" not in interface:
                continue
            try:
                with socket.create_connection((interface["inet"].split("/")[0], 22), 1) as link:
                    if link.recv(4) == b"SSH-":
                        return
            except OSError:
                continue
        time.sleep(0.02)


def measure_containers(ready: dict[str, Json], directory: Path) -> tuple[float, float, float]:
    """Return the best of three times in seconds: unpack, create, and linked clone until the ssh banner."""
    client = Client(ready)
    archive = directory / "lxc" / "files" / "pve" / "local" / ready["base"].partition(":")[2]
    template = {
        "ostemplate": ready["base"],
        "rootfs": "local-lvm:2",
        "features": "nesting=1",
        "net0": "name=eth0,bridge=vmbr0,ip=dhcp",
    }
    unpack = min(unpacking(archive, directory) for _ in range(3))
    create = min(client.task("POST", "/nodes/pve/lxc", vmid=900 + n, **template) for n in range(3))
    client.ask("POST", "/nodes/pve/lxc/900/template")
    while client.ask("GET", "/nodes/pve/lxc/900/config").get("template") != 1:
        time.sleep(0.02)

    def clone(vmid: int) -> float:
        began = time.perf_counter()
        client.task("POST", "/nodes/pve/lxc/900/clone", newid=vmid)
        client.task("POST", f"/nodes/pve/lxc/{vmid}/status/start")
        to_banner(client, vmid)
        return time.perf_counter() - began

    return unpack, create, min(clone(910 + n) for n in range(3))


def main() -> int:
    """Measure, print the figures and return the exit code."""
    figures: list[tuple[str, float, float, Callable[[float, float], bool]]] = []
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as name:
        directory = Path(name)
        with sandbox("memory", directory) as ready:
            figures.append(("API calls per second", calls_per_second(ready), 300, float.__ge__))
        with sandbox("memory", directory) as ready:
            root, pooled = Client(ready, "root@pam!sandbox"), Client(ready, "pooled@pve!daily")
            said, missed = speed.lines(speed.table(root, pooled, ready["base"]))
            sys.stdout.write("\n".join(said) + "\n\n")
        reason = unable_to_run()
        if reason is None:
            with sandbox("lxc", directory) as ready:
                unpack, create, clone = measure_containers(ready, directory)
            figures.append(("create / plain unpack", create / unpack, 2, float.__le__))
            figures.append(("linked clone to ssh banner, s", clone, 3, float.__le__))
            sys.stdout.write(f"{'plain unpack, s':32} {unpack:8.2f}\n{'create, s':32} {create:8.2f}\n")
        else:
            sys.stderr.write(f"{reason} Containers are not measured.\n")
    for what, value, limit, holds in figures:
        ok = holds(value, float(limit))
        missed |= not ok
        sign = ">=" if holds is float.__ge__ else "<="
        sys.stdout.write(f"{what:32} {value:8.2f}   {sign} {limit:g}   {'ok' if ok else 'MISSED'}\n")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
