"""The ground of all ways: one node with real containers, one stand-in model, one ssh key, and the check at the end."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from ruamel.yaml import YAML

from bench.client import Client
from bench.ways.meter import Measured, Meter
from paddock.demo import Stage, lxc_stage
from pvebox.standins.stage import stage_folder

NODE: Final = "/nodes/pve"
ROOT: Final = "root@pam!sandbox"
PORT: Final = 8642  # of the agent's API, on loopback
_NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET
_PATIENCE: Final = 120.0
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Ground:
    """The node and everything that the ways share on it."""

    stage: Stage
    meter: Meter
    api: Client
    file: dict[str, Any]  # paddock.yaml

    @property
    def place(self) -> dict[str, Any]:
        """The node as the file describes it: base, storage, bridge."""
        return dict(self.file["places"]["box"]["proxmox"])

    @property
    def public_key(self) -> str:
        return (self.stage.folder / "id_ed25519.pub").read_text().strip()

    @property
    def models(self) -> str:
        """URL of the stand-in model."""
        return str(self.file["agents"]["hermes"]["settings"]["providers"]["standin"]["base_url"])

    @property
    def version(self) -> str:
        return str(self.file["agents"]["hermes"]["version"])

    def pid(self, vmid: int) -> int:
        """Return the first process of a running container."""
        return int(self.api.ask("GET", f"{NODE}/lxc/{vmid}/status/current")["pid"])


class Way(Protocol):
    """One way to deploy an agent. Its machine exists from `first` or `recreate` until `remove`."""

    @property
    def name(self) -> str: ...

    def first(self) -> Measured:
        """Deploy the agent where nothing exists yet."""
        ...

    def recreate(self) -> Measured:
        """Create the machine again, with the state that exists."""
        ...

    def remove(self) -> None:
        """Destroy the machine and keep the state."""
        ...

    def machine(self) -> tuple[int, str]:
        """Return the number of the machine, and the key of the agent's API."""
        ...


@contextmanager
def ground() -> Iterator[Ground]:
    """Start a node and a model, and remove them when the block ends."""
    with stage_folder() as folder, lxc_stage(folder) as stage:
        tokens = json.loads((folder / "sandbox/cluster.json").read_text())["tokens"]
        file = dict(YAML(typ="safe").load(folder / "paddock.yaml"))
        node = file["places"]["box"]["proxmox"]
        secrets = {name: token["secret"] for name, token in tokens.items()}
        api = Client({"url": node["url"], "ca": node["ca"], "tokens": secrets}, ROOT)
        yield Ground(stage, Meter(folder), api, file)


def check(ground: Ground, way: Way) -> None:
    """Prove the end state, the same for all ways: the agent answers a prompt through the stand-in model."""
    vmid, key = way.machine()
    prompt = f"say ok at {time.time()}"
    said = in_network_of(ground.pid(vmid), lambda: ask(key, prompt))
    if f"ok: {prompt}" not in said:
        raise SystemExit(f"{way.name}: the agent does not answer as the model does: {said[:300]}")


def in_network_of(pid: int, work: Callable[[], _Found]) -> _Found:
    """Run a function in a thread of this process that uses the network of a container."""
    found: list[_Found] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            _enter_network(pid)
            found.append(work())
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def _enter_network(pid: int) -> None:
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        # It changes the thread that calls it; os.setns exists from Python 3.12 on.
        if ctypes.CDLL(None, use_errno=True).setns(network, _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(network)


def await_health() -> None:
    """Wait until the agent's API is healthy."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            if _request("GET", "/health")[0] == 200:
                return
        except (OSError, HTTPException):
            pass
        time.sleep(0.01)
    raise SystemExit(f"the agent's API was not healthy within {_PATIENCE:.0f} s")


def ask(key: str, prompt: str) -> str:
    """Return the answer of the agent's API to a prompt."""
    question = {"model": "hermes-agent", "messages": [{"role": "user", "content": prompt}]}
    status, said = _request("POST", "/v1/chat/completions", json.dumps(question), key)
    return said if status == 200 else f"{status} {said}"


def _request(method: str, path: str, body: str | None = None, key: str = "") -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", PORT, timeout=60)
    try:
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def read_key(file: Path) -> str:
    """Return the key of the agent's API from an environment file."""
    lines = file.read_text().splitlines()
    return next(line.partition("=")[2].strip("\"'") for line in lines if line.startswith("API_SERVER_KEY="))
