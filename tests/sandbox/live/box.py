"""A sandbox with real containers, and a check that it leaves nothing on the host."""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from pvebox.runtime.lxc.names import Names

Json = Any


@dataclass
class Box:
    """A running sandbox and a client of it."""

    state: Path
    ready: dict[str, Json]
    client: httpx.Client
    key: Path
    server: subprocess.Popen[str]

    def call(self, verb: str, path: str, **params: Json) -> Json:
        """Call the API, assert success, and return the data."""
        in_query = verb in ("GET", "DELETE")
        answer = self.client.request(verb, path, params=params if in_query else None, data=None if in_query else params)
        assert answer.status_code == 200, (verb, path, answer.status_code, answer.reason_phrase)
        return answer.json()["data"]

    def task(self, verb: str, path: str, **params: Json) -> str:
        """Start a task, wait for its end, and return its exit status."""
        upid = self.call(verb, path, **params)
        return str(self.ended(upid)["exitstatus"])

    def ended(self, upid: str) -> dict[str, Json]:
        """Wait for the end of a task and return its status."""

        def status() -> Json:
            found = self.call("GET", f"/nodes/pve/tasks/{upid}/status")
            return found if found["status"] == "stopped" else None

        found: dict[str, Json] = wait_for(status, 60)
        if found["exitstatus"] != "OK":
            for line in self.call("GET", f"/nodes/pve/tasks/{upid}/log", limit=0):
                sys.stderr.write(f"  {line['t']}\n")
        return found

    def create(self, vmid: int, **more: Json) -> str:
        """Create a container with the ssh key of the test; return the exit status of the task."""
        params = {
            "vmid": vmid,
            "ostemplate": self.ready["base"],
            "rootfs": "local-lvm:2",
            "unprivileged": 1,
            "features": "nesting=1",
            "net0": "name=eth0,bridge=vmbr0,ip=dhcp",
            "ssh-public-keys": self.key.with_suffix(".pub").read_text(encoding="utf-8"),
            **more,
        }
        return self.task("POST", "/nodes/pve/lxc", **params)

    def root(self, *argv: str) -> str:
        """What a command at the node's console prints."""
        command = [sys.executable, "-m", "pvebox", "root", "--state", str(self.state), "--", *argv]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        return done.stdout

    def address(self, vmid: int) -> str:
        """Wait for the IPv4 address of a container and return it."""

        def found() -> str | None:
            for interface in self.call("GET", f"/nodes/pve/lxc/{vmid}/interfaces") or ():
                if interface["name"] == "eth0" and "inet" in interface:
                    return str(interface["inet"]).split("/")[0]
            return None

        return str(wait_for(found, 20))

    def ssh(self, vmid: int, *command: str) -> str:
        """Run a command in a container over ssh and return its output."""
        address = self.address(vmid)
        argv = [
            *("ssh", "-q", "-i", str(self.key), "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"),
            *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"),
            *(f"root@{address}", *command),
        ]

        def output() -> tuple[str] | None:
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode == 255:
                return None
            assert done.returncode == 0, done
            return (done.stdout,)

        return str(wait_for(output, 20)[0])


def wait_for(question: Callable[[], Json], seconds: float) -> Json:
    """Ask again until the answer is true, and return that answer."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        answer = question()
        if answer:
            return answer
        time.sleep(0.05)
    raise TimeoutError(question)


def serve(state: Path, *options: str, mmp_wait: float | None = 0) -> tuple[subprocess.Popen[str], dict[str, Json]]:
    """Start a server on a state directory and return it with its ready line. With `mmp_wait=None` the kernel waits."""
    argv = [
        *(sys.executable, "-m", "pvebox", "serve", "--runtime", "lxc", "--state", str(state)),
        *("--port", "0", "--delay-401", "0", *options),
        *(() if mmp_wait is None else ("--mmp-wait", str(mmp_wait))),
    ]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = server.stdout.readline()
    assert line, "the server ended before it was ready"
    return server, json.loads(line)


def clean(state: Path) -> None:
    """Remove everything of a sandbox."""
    subprocess.run([sys.executable, "-m", "pvebox", "clean", "--state", str(state)], check=True)


@contextlib.contextmanager
def running_box(directory: Path, *options: str, mmp_wait: float | None = 0) -> Iterator[Box]:
    """Run a sandbox while the block runs."""
    state, key = directory / "box", directory / "key"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    try:
        server, ready = serve(state, *options, mmp_wait=mmp_wait)
        # The default fixture has a token with privileges on all containers; the recorded one has root's.
        name = next(each for each in ("paddock@pve!deploy", "root@pam!full") if each in ready["tokens"])
        secret = ready["tokens"][name]
        client = httpx.Client(
            base_url=f"{ready['url']}/api2/json",
            verify=ssl.create_default_context(cafile=ready["ca"]),
            headers={"Authorization": f"PVEAPIToken={name}={secret}"},
            timeout=60,
        )
        box = Box(state, ready, client, key, server)
        with client:
            yield box
        box.server.terminate()
        box.server.wait(20)
    finally:
        clean(state)


def host_things() -> dict[str, set[str]]:
    """List what a sandbox could leave on the host: mounts, loop devices, links, cgroups, rules, processes."""
    run = subprocess.run
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    loops = run(["losetup", "--list", "--noheadings", "--output", "BACK-FILE"], capture_output=True, text=True)
    rules = "".join(
        run(["iptables", "-w", "-t", table, "-S"], capture_output=True, text=True, check=True).stdout
        for table in ("nat", "filter")
    )
    return {
        "mounts": {line.split(" ")[4] for line in mounts},
        "loops": set(loops.stdout.split()),
        "links": {link.name for link in Path("/sys/class/net").iterdir()},
        "cgroups": {str(path) for path in Path("/sys/fs/cgroup").glob("*/lxc.*")},
        "rules": set(rules.splitlines()),
        "processes": _processes(),
    }


def _processes() -> set[str]:
    """Return the command lines of LXC, dnsmasq and sandbox processes."""
    found = set()
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if "lxc" in line or "dnsmasq" in line or "pvebox" in line:
                found.add(line)
    return found


def left_behind(before: dict[str, set[str]], state: Path) -> dict[str, set[str]]:
    """Return what this sandbox has added to the host and not removed."""
    now = host_things()
    marks = (str(state), Names(state).short_id)
    extra = {
        kind: {thing for thing in now[kind] - before[kind] if any(mark in thing for mark in marks)} for kind in now
    }
    return {kind: things for kind, things in extra.items() if things}
