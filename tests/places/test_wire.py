"""The client over a real connection: TLS, cut connections, and missing responses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from paddock.base.errors import PaddockError
from paddock.base.secret import Secret
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import AnswerLost, Unauthorized
from pvebox.server import background

TOKEN = "paddock@pve!deploy"
POOR: dict[str, str | int] = {
    "vmid": 100,
    "ostemplate": "local:vztmpl/debian-12-standard_12.12-1_amd64.tar.zst",
    "rootfs": "local-lvm:1",
}


class Served:
    """A sandbox that is served by another process."""

    def __init__(self, state: Path, ready: dict[str, Any]) -> None:
        self.state = state
        self.url = str(ready["url"])
        self.ca = Path(ready["ca"])
        self.token = Secret(f"{TOKEN}={ready['tokens'][TOKEN]}")

    def client(self, **trust: Any) -> Client:
        context = tls.context(self.url, trust.get("ca", self.ca), trust.get("fingerprint"))
        return Client(self.url, "pve", self.token, context)

    def fault(self, kind: str, value: str = "", **more: Any) -> None:
        background.ask(self.state, "POST", "faults", {"kind": kind, "value": value, **more})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("served") / "state"
    argv = [sys.executable, "-m", "pvebox", "serve", "--runtime", "memory", "--state", str(state)]
    server = subprocess.Popen([*argv, "--port", "0", "--delay-401", "0.1"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    yield Served(state, json.loads(server.stdout.readline()))
    server.send_signal(signal.SIGTERM)
    assert server.wait(10) == 0
    server.stdout.close()


@pytest.mark.parametrize("kind", ["reset", "stall", "answer"])
def test_a_read_is_retried_after_the_connection_is_cut(served: Served, kind: str) -> None:
    client = served.client()
    served.fault(kind, "10" if kind == "stall" else "596", path="/version", count=2)
    assert client.get("/version")["version"] == "9.2.11"


@pytest.mark.parametrize("kind", ["reset", "lose", "stall", "answer"])
def test_a_write_is_not_retried_after_the_connection_is_cut(served: Served, kind: str) -> None:
    client = served.client()
    client.get("/version")  # the next request uses an open connection
    served.fault(kind, "10" if kind == "stall" else "596", method="POST")
    with pytest.raises(AnswerLost, match="POST /nodes/pve/lxc"):
        client.send("POST", "/nodes/pve/lxc", POOR)
    made = [row["vmid"] for row in client.get("/nodes/pve/lxc")]
    assert made == ([100] if kind == "lose" else [])
    if made:
        while client.get("/nodes/pve/tasks", {"source": "active"}):
            time.sleep(0.01)
        client.task("DELETE", "/nodes/pve/lxc/100")


def test_a_write_to_a_silent_node_times_out_as_a_lost_answer(served: Served) -> None:
    client = served.client()
    client._http.timeout = httpx.Timeout(0.1)
    served.fault("stall", "1000", method="PUT")
    with pytest.raises(AnswerLost):
        client.send("PUT", "/nodes/pve/lxc/100/config", {"cores": 1})


def test_the_reason_of_a_response_without_a_body_is_shown(served: Served) -> None:
    wrong = Secret(f"{TOKEN}=00000000-0000-0000-0000-000000000000")
    with pytest.raises(Unauthorized, match="Authentication failed!"):
        Client(served.url, "pve", wrong, tls.context(served.url, served.ca, None)).get("/version")


def test_a_node_is_trusted_only_with_the_right_fingerprint(served: Served) -> None:
    with pytest.raises(PaddockError, match="SHA-256 fingerprint is") as caught:
        served.client(fingerprint=":".join(["00"] * 32))
    shown = caught.value.message.rpartition(" ")[2]
    assert served.client(fingerprint=shown)
    with pytest.raises(PaddockError, match="is not trusted"):
        served.client(ca=None).get("/version")
