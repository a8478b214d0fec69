"""The sandbox server as a process, and its command line."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from pvebox import main
from pvebox.server.background import KEY_HEADER

Ready = dict[str, Any]


def serve(state: Path, *options: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "pvebox", "serve", "--runtime", "memory", "--state", str(state)]
    return subprocess.Popen([*argv, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    server = serve(tmp_path_factory.mktemp("serving") / "state", "--port", "0", "--delay-401", "0.2")
    assert server.stdout is not None
    yield json.loads(server.stdout.readline())
    server.send_signal(signal.SIGTERM)
    assert server.wait(10) == 0


def client(ready: Ready, token: str = "paddock@pve!deploy") -> httpx.Client:
    return httpx.Client(
        base_url=f"{ready['url']}/api2/json",
        verify=ssl.create_default_context(cafile=ready["ca"]),
        headers={"Authorization": f"PVEAPIToken={token}={ready['tokens'].get(token, 'x')}"},
    )


def test_the_ready_line_has_the_data_that_a_client_needs(ready: Ready) -> None:
    assert set(ready) >= {"url", "ca", "tokens", "node", "storage", "base", "bridge", "gateway", "control"}
    with client(ready) as api:
        assert api.get("/version").json()["data"]["version"] == "9.2.11"


def test_the_server_can_serve_a_model_whose_address_and_key_stay_the_same(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        server = serve(tmp_path / "state", "--port", "0", "--model")
        assert server.stdout is not None
        model = json.loads(server.stdout.readline())["model"]
        key = {"Authorization": f"Bearer {model['key']}"}
        assert httpx.get(f"{model['url']}/models").status_code == 401
        assert httpx.get(f"{model['url']}/models", headers=key).json()["data"][0]["id"] == model["name"]
        seen.append(model)
        server.send_signal(signal.SIGTERM)
        assert server.wait(10) == 0
    assert seen[0] == seen[1]
    assert (tmp_path / "state/model.json").stat().st_mode & 0o777 == 0o600


def test_an_answer_has_one_date_and_the_certificate_that_the_server_uses(ready: Ready) -> None:
    address = urlsplit(ready["url"])
    pem = ssl.get_server_certificate((address.hostname or "", address.port or 0))
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest().upper()
    with client(ready, "pooled@pve!daily") as api:
        answer = api.get("/nodes/pve/certificates/info")
        own = next(each for each in answer.json()["data"] if each["filename"] == "pve-ssl.pem")
        assert own["fingerprint"].replace(":", "") == digest
        assert len(answer.headers.get_list("date")) == 1


def test_the_reason_phrase_is_in_the_status_line(ready: Ready) -> None:
    with client(ready) as api:
        answer = api.get("/nodes/pve/status")
        assert answer.reason_phrase == "Permission check failed (/nodes/pve, Sys.Audit)"
        assert "x-pvebox-reason" not in answer.headers


def test_the_answer_to_a_wrong_token_is_delayed_and_has_no_body(ready: Ready) -> None:
    with client(ready, "root@pam!nosuch") as api:
        began = time.monotonic()
        answer = api.get("/version")
        assert (answer.status_code, answer.reason_phrase, answer.content) == (
            401,
            "Authentication failed!",
            b"",
        )
        assert time.monotonic() - began >= 0.2


def test_a_delete_request_with_a_body_is_rejected(ready: Ready) -> None:
    with client(ready) as api:
        answer = api.request("DELETE", "/nodes/pve/lxc/100", content=b"force=1")
        assert (answer.status_code, answer.reason_phrase) == (501, "Unexpected content for method 'DELETE'")


def test_the_access_log_has_a_line_per_request(ready: Ready) -> None:
    with client(ready) as api:
        api.get("/cluster/nextid", params={"vmid": "123"})
    with client(ready, "root@pam!nosuch") as api:
        api.put("/nodes/pve/lxc/100/config")
    known, unknown = (Path(ready["ca"]).parents[1] / "access.log").read_text().splitlines()[-2:]
    asked = '"GET /api2/json/cluster/nextid?vmid=123 HTTP/1.1" 200 14'
    assert re.fullmatch(rf"127\.0\.0\.1 - paddock@pve!deploy \[[\d/:]+ [+-]\d{{4}}\] {re.escape(asked)}", known)
    assert unknown.endswith('"PUT /api2/json/nodes/pve/lxc/100/config HTTP/1.1" 401 0')
    assert " - - [" in unknown


def test_the_control_endpoint_needs_its_own_key(ready: Ready) -> None:
    trust = ssl.create_default_context(cafile=ready["ca"])
    with httpx.Client(verify=trust) as web:
        url = f"{ready['control']['url']}/faults"
        assert web.get(url).status_code == 401
        assert web.get(url, headers={KEY_HEADER: ready["control"]["key"]}).json() == []


def test_an_injected_reset_aborts_one_connection(ready: Ready) -> None:
    trust = ssl.create_default_context(cafile=ready["ca"])
    with httpx.Client(verify=trust) as web:
        rule = {"kind": "reset", "path": "/version"}
        web.post(f"{ready['control']['url']}/faults", json=rule, headers={KEY_HEADER: ready["control"]["key"]})
    with client(ready) as api:
        with pytest.raises(httpx.TransportError):
            api.get("/version")
        assert api.get("/version").status_code == 200


def test_a_crashed_node_is_unreachable_and_then_boots_its_containers(ready: Ready) -> None:
    template = {"ostemplate": ready["base"], "rootfs": "local-lvm:1", "features": "nesting=1"}
    with client(ready) as api:
        for vmid, onboot in ((100, 1), (101, 0)):
            api.post("/nodes/pve/lxc", data={**template, "vmid": vmid, "onboot": onboot, "start": 1})
        _wait(lambda: _running(api) == {100, 101})
        trust = ssl.create_default_context(cafile=ready["ca"])
        with httpx.Client(verify=trust, headers={KEY_HEADER: ready["control"]["key"]}) as web:
            web.post(f"{ready['control']['url']}/crash", json={"seconds": 0.5})
        with pytest.raises(httpx.TransportError):
            api.get("/version")
        time.sleep(0.6)
        _wait(lambda: _running(api) == {100})


def _running(api: httpx.Client) -> set[int]:
    listed = api.get("/nodes/pve/lxc").json()["data"]
    return {entry["vmid"] for entry in listed if entry["status"] == "running"}


def _wait(question: Callable[[], bool]) -> None:
    until = time.monotonic() + 5
    while not question():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_killed_server_loses_no_change(tmp_path: Path) -> None:
    paths = ("/nodes/pve/lxc", "/nodes/pve/storage/local-lvm/content", "/nodes/pve/storage/local/content", "/pools")
    keep = ("vmid", "status", "name", "volid", "size", "poolid", "comment")

    def seen(ready: Ready) -> list[Any]:
        with client(ready, "root@pam!sandbox") as api:
            listings = [api.get(path).json()["data"] for path in paths]
        return [[{key: entry.get(key) for key in keep} for entry in entries] for entries in listings]

    def started() -> tuple[subprocess.Popen[str], Ready]:
        server = serve(tmp_path / "state", "--port", "0")
        assert server.stdout is not None
        return server, json.loads(server.stdout.readline())

    server, ready = started()
    template = {"ostemplate": ready["base"], "rootfs": "local-lvm:1", "features": "nesting=1"}
    with client(ready, "root@pam!sandbox") as api:
        for vmid in (100, 101):
            api.post("/nodes/pve/lxc", data={**template, "vmid": vmid, "start": 1})
        _wait(lambda: _running(api) == {100, 101})
        api.post("/nodes/pve/lxc/101/status/stop")
        _wait(lambda: _running(api) == {100})
        api.post("/pools", data={"poolid": "new", "comment": "kept"})
        api.post("/nodes/pve/storage/local-lvm/content", data={"vmid": 101, "filename": "vm-101-x", "size": "8M"})
    before = seen(ready)
    server.kill()
    server.wait(10)
    server, ready = started()
    try:
        assert seen(ready) == before
    finally:
        server.terminate()
        server.wait(10)


def test_a_port_in_use_is_reported_without_a_traceback(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = serve(tmp_path / "state", "--port", str(port))
        _, said = server.communicate(timeout=20)
    assert server.returncode == 1
    assert said.startswith(f"Port {port} cannot be used")
    assert "Traceback" not in said


def test_an_invalid_fixture_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.json").write_text("{", encoding="utf-8")
    options = ["--runtime", "memory", "--state", str(tmp_path / "s"), "--port", "0"]
    assert main(["serve", *options, "--fixture", str(tmp_path / "f.json")]) == 1
    assert "is not JSON" in capsys.readouterr().err


def test_the_commands_up_status_token_root_fault_reset_down_and_clean_work_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ["--state", str(tmp_path / "state")]

    def command(*argv: str) -> str:
        assert main([argv[0], *state, *argv[1:]]) == 0
        return capsys.readouterr().out

    first = json.loads(command("up", "--runtime", "memory", "--port", "0"))
    try:
        assert json.loads(command("up")) == first
        assert command("token").startswith("pooled@pve!setup=")
        assert "VMID" in command("root", "--", "pct", "list")
        command("fault", "answer", "500", "--path", "/version")
        assert len(json.loads(command("fault", "list"))) == 1
        command("fault", "clock", "-86400")
        with client(first) as api:
            date = parsedate_to_datetime(api.get("/nodes").headers["date"])
            assert abs(date.timestamp() + 86_400 - time.time()) < 10
        assert json.loads(command("status", "--json"))["nodes"] == ["pve"]
        assert json.loads(command("reset"))["tokens"] != first["tokens"]
        command("down")
        assert main(["status", *state]) == 1
        assert (tmp_path / "state" / "cluster.json").exists()
    finally:
        command("clean")
    assert not (tmp_path / "state").exists()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Ready, Path]]:
    state = tmp_path / "state"
    server = serve(state, "--port", "0", "--nodes", "pve1,pve2")
    assert server.stdout is not None
    yield json.loads(server.stdout.readline()), state
    server.send_signal(signal.SIGTERM)
    assert server.wait(10) == 0


def test_a_node_that_is_cut_off_takes_the_quorum_with_it(
    cluster: tuple[Ready, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    ready, state = cluster
    with client(ready) as api:
        assert main(["fault", "offline", "pve2", "--state", str(state)]) == 0
        assert [node["status"] for node in api.get("/nodes").json()["data"]] == ["online", "offline"]
        assert api.get("/nodes/pve2/lxc").status_code == 595
        create = {"vmid": 100, "ostemplate": ready["base"], "rootfs": "local-lvm:1"}
        assert api.post("/nodes/pve1/lxc", data=create).reason_phrase == "cluster not ready - no quorum?"
        assert main(["fault", "online", "pve2", "--state", str(state)]) == 0
        assert api.post("/nodes/pve1/lxc", data=create).status_code == 200
    assert main(["fault", "offline", "pve1", "--state", str(state)]) == 1
    assert "cannot be offline" in capsys.readouterr().err


def test_a_held_lock_makes_a_change_wait(cluster: tuple[Ready, Path]) -> None:
    ready, state = cluster
    with client(ready) as api:
        api.post("/nodes/pve1/lxc", data={"vmid": 100, "ostemplate": ready["base"], "rootfs": "local-lvm:1"})
        while api.get("/nodes/pve1/lxc/100/config").json()["data"].get("lock"):
            time.sleep(0.05)
        assert main(["fault", "lock", "100:1", "--state", str(state)]) == 0
        began = time.monotonic()
        assert api.put("/nodes/pve1/lxc/100/config", data={"cores": 1}, timeout=20).status_code == 200
        assert time.monotonic() - began > 0.7
