"""Measure the speed of the sandbox. Without root only requests are measured.

Prints each figure with its limit. The exit code is 1 if a limit is missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import results, speed
from bench.client import Client, to_banner
from pvebox import unable_to_run

Json = Any


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
    client.seal(900)

    def clone(vmid: int) -> float:
        began = time.perf_counter()
        client.task("POST", "/nodes/pve/lxc/900/clone", newid=vmid)
        client.task("POST", f"/nodes/pve/lxc/{vmid}/status/start")
        to_banner(client, vmid)
        return time.perf_counter() - began

    return unpack, create, min(clone(910 + n) for n in range(3))


def main(argv: Sequence[str]) -> int:
    """Measure, print the figures and return the exit code."""
    options = results.parser("sandbox", __doc__).parse_args(argv)
    figures: list[tuple[str, float, float, Callable[[float, float], bool]]] = []
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as name:
        directory = Path(name)
        with sandbox("memory", directory) as ready:
            calls = calls_per_second(ready, seconds=1.0 if options.quick else 4.0)
            figures.append(("API calls per second", calls, 300, float.__ge__))
        with sandbox("memory", directory) as ready:
            root, pooled = Client(ready, "root@pam!sandbox"), Client(ready, "pooled@pve!daily")
            table = speed.table(root, pooled, ready["base"], rounds=5 if options.quick else 60)
            said, missed = speed.lines(table)
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
    requests = {name: [asdict(each) for each in of_sizes] for name, (of_sizes, _) in table.items()}
    data = {"sizes": speed.SIZES, "requests": requests, "figures": {what: value for what, value, *_ in figures}}
    results.write(options.out, "sandbox", data)
    return int(missed)
