"""The HTTP client against every known fault of a node."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from clocks import SimulatedClock
from paddock.base import clock
from paddock.base.errors import PaddockError
from paddock.base.secret import Secret
from paddock.places.proxmox.api.client import Client, NotReached, TaskFailed
from paddock.places.proxmox.api.errors import (
    AnswerLost,
    ApiError,
    BadParameters,
    Exists,
    Forbidden,
    Grown,
    Locked,
    Modified,
    NoContainer,
    NotRunning,
    Protected,
    RootOnly,
    Running,
    StillRuns,
    Unauthorized,
    api_error,
)

UPID = "UPID:pve:0000011D:0008FA94:6AF915BD:vzcreate:105:ops@pve!auto:"


def node(monkeypatch: pytest.MonkeyPatch, handler: Callable[[httpx.Request], httpx.Response]) -> Client:
    """Return a client whose requests a function answers."""
    monkeypatch.setattr(clock, "current", SimulatedClock())
    client = Client("https://node:8006", "pve", Secret("ops@pve!auto=canary-9"), ssl.create_default_context())
    client._http._transport = httpx.MockTransport(handler)
    return client


def answers(*responses: httpx.Response | Exception) -> Callable[[httpx.Request], httpx.Response]:
    """Return a function that gives these responses one after another."""
    left = list(responses)

    def handle(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == "PVEAPIToken=ops@pve!auto=canary-9"
        assert request.headers["Accept-Encoding"] == "identity"
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return handle


def data(value: object) -> httpx.Response:
    return httpx.Response(200, json={"data": value})


def test_a_read_is_retried_while_the_node_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = httpx.ReadTimeout("slow")
    client = node(monkeypatch, answers(lost, httpx.Response(596), httpx.Response(503), data("102")))
    assert client.get("/cluster/nextid") == "102"


def test_a_write_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for lost in (httpx.Response(596), httpx.Response(503), httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("cut")):
        client = node(monkeypatch, answers(lost))
        with pytest.raises(AnswerLost):
            client.send("PUT", "/nodes/pve/lxc/105/config", {"cores": 2})


def test_a_write_that_could_not_connect_is_not_a_lost_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    client = node(monkeypatch, answers(httpx.ConnectError("refused")))
    with pytest.raises(PaddockError, match="does not answer") as caught:
        client.send("POST", "/nodes/pve/lxc")
    assert not isinstance(caught.value, AnswerLost)


def refused() -> httpx.ConnectError:
    error = httpx.ConnectError("[Errno 111] Connection refused")
    error.__cause__ = ConnectionRefusedError(111, "Connection refused")
    return error


@pytest.mark.parametrize(("changed", "seconds"), [(False, 5), (True, 30)])
def test_refused_connections_are_retried_longer_after_a_change(
    monkeypatch: pytest.MonkeyPatch, *, changed: bool, seconds: float
) -> None:
    ends = 0.0

    def handle(request: httpx.Request) -> httpx.Response:
        if clock.monotonic() < ends:
            raise refused()
        return data("102")

    client = node(monkeypatch, handle)
    if changed:
        client.send("PUT", "/nodes/pve/lxc/105/config", {"cores": 2})
    for method in ("GET", "POST"):
        ends = clock.monotonic() + seconds - 1.5
        assert (client.get("/x") if method == "GET" else client.send(method, "/x")) == "102"
        client._changed = changed
    for ask in (client.get, lambda path: client.send("POST", path)):
        start = clock.monotonic()
        ends = start + 3600
        with pytest.raises(NotReached, match="https://node:8006 does not answer"):
            ask("/x")
        assert clock.monotonic() - start < seconds + 2


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "Authentication failed!", Unauthorized),
        (403, "Permission check failed (/vms/105, VM.Allocate)\n", Forbidden),
        (403, "Permission check failed (mount point type bind is only allowed for root@pam)\n", RootOnly),
        (400, "Parameter verification failed.\n", BadParameters),
        (500, "Configuration file 'nodes/pve/lxc/105.conf' does not exist\n", NoContainer),
        (500, "CT 105 already exists on node 'pve'\n", Exists),
        (500, "detected modified configuration - file changed by other user? Try again.\n", Modified),
        (500, "CT is locked (backup)\n", Locked),
        (500, "can't lock file '/run/lock/lxc/pve-config-105.lock' - got timeout\n", Locked),
        (500, "can't remove CT 999 - protection mode enabled\n", Protected),
        (500, "CT 105 already running\n", Running),
        (500, "CT 105 not running\n", NotRunning),
        (500, "VM 105 not running\n", NotRunning),
        (500, "unable to destroy CT 105 - container is running\n", StillRuns),
        (500, "disk is already at specified size\n", Grown),
        (500, "something else\n", ApiError),
    ],
)
def test_errors_get_their_type_from_the_message(status: int, message: str, kind: type[ApiError]) -> None:
    assert type(api_error("GET /x", status, message, {})) is kind


def test_errors_include_the_message_for_each_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    body = {
        "data": None,
        "message": "Parameter verification failed.\n",
        "errors": {"memory": "value must have a minimum value of 16"},
    }
    client = node(monkeypatch, answers(httpx.Response(400, json=body)))
    with pytest.raises(ApiError) as caught:
        client.send("POST", "/nodes/pve/lxc", {"memory": 1})
    assert caught.value.errors == body["errors"]
    assert "memory: value must have a minimum value of 16" in caught.value.message


def test_a_missing_container_is_recognised_by_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"data": None, "message": "Configuration file 'nodes/pve/lxc/105.conf' does not exist\n"}
    client = node(monkeypatch, answers(httpx.Response(500, json=body)))
    with pytest.raises(NoContainer):
        client.get("/nodes/pve/lxc/105/config")


def test_a_rejected_token_is_recognised_without_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    client = node(monkeypatch, answers(httpx.Response(401)))
    with pytest.raises(Unauthorized) as caught:
        client.get("/version")
    assert "check the token" in str(caught.value.hint)


def test_a_delete_has_no_body(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        assert request.content == b""
        return data(None)

    assert node(monkeypatch, handle).send("DELETE", "/nodes/pve/lxc/105") is None


def test_a_task_that_succeeds_has_no_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [data(UPID), data({"status": "running"}), data({"status": "stopped", "exitstatus": "OK"})]
    assert node(monkeypatch, answers(*states)).task("POST", "/nodes/pve/lxc").warnings == ()


def test_a_task_with_warnings_succeeds_and_returns_them(monkeypatch: pytest.MonkeyPatch) -> None:
    log = [{"n": 1, "t": "unpacking"}, {"n": 2, "t": "WARN: Systemd 252 detected. You may need to enable nesting."}]
    states = [data(UPID), data({"status": "stopped", "exitstatus": "WARNINGS: 1"}), data(log)]
    end = node(monkeypatch, answers(*states)).task("POST", "/nodes/pve/lxc")
    assert end.warnings == ("WARN: Systemd 252 detected. You may need to enable nesting.",)


def test_a_failed_task_shows_its_reason_and_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = [{"n": n, "t": f"line {n}"} for n in range(1, 20)]
    states = [data(UPID), data({"status": "stopped", "exitstatus": "unable to create CT 105 - no space"}), data(log)]
    with pytest.raises(TaskFailed) as caught:
        node(monkeypatch, answers(*states)).task("POST", "/nodes/pve/lxc")
    assert "unable to create CT 105 - no space" in caught.value.message
    assert caught.value.message.endswith("line 19")


def test_an_unreachable_node_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    client = node(monkeypatch, answers(*[httpx.ConnectError("refused")] * 4))
    with pytest.raises(PaddockError, match="https://node:8006 does not answer"):
        client.get("/version")


# The time on the node

NODE_TIME = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)


def dated(date: str) -> httpx.Response:
    return httpx.Response(200, json={"data": None}, headers={"Date": date})


def test_the_time_is_that_of_the_nodes_last_response(monkeypatch: pytest.MonkeyPatch) -> None:
    client = node(monkeypatch, answers(dated("Sat, 01 Jan 2000 00:00:00 GMT"), dated("Mon, 03 Feb 2031 04:05:06 GMT")))
    client.get("/version")
    client.get("/version")
    assert timedelta(0) <= client.now() - NODE_TIME < timedelta(seconds=30)


def test_an_error_of_the_node_also_sets_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = httpx.Response(403, headers={"Date": "Mon, 03 Feb 2031 04:05:06 GMT"})
    client = node(monkeypatch, answers(refusal))
    with pytest.raises(Forbidden):
        client.get("/version")
    assert client.now() >= NODE_TIME


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99 Feb 2031 04:05:06 GMT"])
def test_without_a_readable_date_the_time_is_that_of_this_computer(monkeypatch: pytest.MonkeyPatch, date: str) -> None:
    client = node(monkeypatch, answers(dated(date)))
    client.get("/version")
    assert abs(client.now() - datetime.now(UTC)) < timedelta(seconds=30)
