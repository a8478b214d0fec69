"""Logging in with a password: tickets, the tokens against cross-site requests, and passwords."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from pvebox.access import tickets
from pvebox.cluster.assembly import memory_cluster
from pvebox.console.console import Console
from sandbox.inprocess import Api, Json

PASSWORD = "correct horse"


@pytest.fixture
def api(tmp_path: Path) -> Api:
    """Return a sandbox in which root has a password."""
    made = Api(tmp_path / "state")
    assert Console(made.cluster).run(["pveum", "passwd", "root@pam", "--password", PASSWORD]).code == 0
    return made


def login(api: Api, username: str = "root@pam", password: str = PASSWORD, **more: Json) -> httpx.Response:
    return api.send("POST", "/access/ticket", {}, username=username, password=password, **more)


def headers(data: dict[str, str]) -> dict[str, str]:
    cookie = f"other=1; PVEAuthCookie={quote(data['ticket'], safe='')}"
    return {"Cookie": cookie, "CSRFPreventionToken": data["CSRFPreventionToken"]}


def test_a_password_gives_a_ticket_that_acts_as_the_user(api: Api) -> None:
    data = login(api).json()["data"]
    assert data["username"] == "root@pam"
    assert data["ticket"].startswith("PVE:root@pam:")
    assert data["cap"]["vms"]["VM.Allocate"] == 1
    answer = api.send("PUT", "/access/users/pooled@pve", headers(data), comment="changed")
    assert answer.status_code == 200
    assert api.cluster.access.users["pooled@pve"].comment == "changed"


def test_the_realm_may_be_a_parameter_and_the_ticket_in_the_authorization_header(api: Api) -> None:
    data = login(api, "root", realm="pam").json()["data"]
    answer = api.send("GET", "/version", {"Authorization": f"PVEAuthCookie={data['ticket']}"})
    assert answer.status_code == 200


def test_a_valid_ticket_gives_a_new_one_and_root_gets_one_for_anybody(api: Api) -> None:
    ticket = login(api).json()["data"]["ticket"]
    assert login(api, "root@pam", ticket).status_code == 200
    other = login(api, "pooled@pve", ticket).json()["data"]
    assert other["username"] == "pooled@pve"
    assert login(api, "root@pam", other["ticket"]).status_code == 401


@pytest.mark.parametrize(
    ("username", "password", "more"),
    [
        ("root@pam", "wrong", {}),
        ("root@pam", "", {}),
        ("nobody@pve", PASSWORD, {}),
        ("pooled@pve", PASSWORD, {}),
        ("root", PASSWORD, {}),
        ("root@else", PASSWORD, {}),
        ("root@pam", PASSWORD, {"tfa-challenge": "x"}),
        ("root@pam", PASSWORD, {"path": "/a b", "privs": "VM.Audit"}),
    ],
)
def test_every_failed_login_gets_the_same_answer(api: Api, username: str, password: str, more: Json) -> None:
    answer = login(api, username, password, **more)
    assert (answer.status_code, answer.json()) == (401, {"data": None, "message": "authentication failure\n"})


def test_a_disabled_user_cannot_log_in_and_an_older_ticket_ends(api: Api) -> None:
    token = "root@pam!sandbox"
    api.ask("POST", "/access/users", token, userid="x@pve", password="long-enough")
    data = login(api, "x@pve", "long-enough").json()["data"]
    api.ask("PUT", "/access/users/x@pve", token, enable=0)
    assert login(api, "x@pve", "long-enough").status_code == 401
    answer = api.send("GET", "/version", headers(data))
    assert (answer.status_code, answer.headers["x-pvebox-reason"]) == (401, "Authentication failed!")


def test_missing_parameters_of_a_login_are_named(api: Api) -> None:
    answer = api.send("POST", "/access/ticket", {}, username="root@pam")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["password"])


def test_a_login_can_check_a_privilege(api: Api) -> None:
    asked = {"path": "/vms/100", "privs": "VM.Audit"}
    assert login(api, **asked).json()["data"].keys() == {"username", "cap"}
    api.ask("POST", "/access/users", "root@pam!sandbox", userid="x@pve", password="long-enough")
    assert login(api, "x@pve", "long-enough", **asked).status_code == 401


@pytest.mark.parametrize("token", [None, "", "00000000:x", "zz"])
def test_a_change_with_a_ticket_needs_the_second_token(api: Api, token: str | None) -> None:
    sent = headers(login(api).json()["data"])
    if token is None:
        del sent["CSRFPreventionToken"]
    else:
        sent["CSRFPreventionToken"] = token
    answer = api.send("PUT", "/access/users/pooled@pve", sent, comment="x")
    assert (answer.status_code, answer.text) == (401, "")
    assert answer.headers["x-pvebox-reason"] == "Permission denied - invalid csrf token"
    assert api.send("GET", "/version", sent).status_code == 200


def test_the_second_token_of_another_user_is_refused(api: Api) -> None:
    sent = headers(login(api).json()["data"])
    sent["CSRFPreventionToken"] = tickets.issue_csrf_token(api.cluster.access.authkey, "pooled@pve")
    assert api.send("PUT", "/access/users/pooled@pve", sent, comment="x").status_code == 401


@pytest.mark.parametrize("change", [lambda t: t[:-2], lambda t: t.replace("root@pam", "pooled@pve"), lambda t: "PVE:x"])
def test_a_forged_ticket_is_refused(api: Api, change: Json) -> None:
    data = login(api).json()["data"]
    answer = api.send("GET", "/version", headers({**data, "ticket": change(data["ticket"])}))
    assert answer.headers["x-pvebox-reason"] == "permission denied - invalid PVE ticket"


def test_a_ticket_ends_after_two_hours(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    data = login(api).json()["data"]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 7190)
    assert api.send("GET", "/version", headers(data)).status_code == 200
    monkeypatch.setattr(time, "time", lambda: now + 7210)
    assert api.send("GET", "/version", headers(data)).status_code == 401


def test_a_token_cannot_log_in_or_set_passwords(api: Api) -> None:
    for method, path in (("POST", "/access/ticket"), ("PUT", "/access/password")):
        answer = api.ask(method, path, "root@pam!sandbox", username="root@pam", password=PASSWORD)
        reason = f"Permission check failed (URI '{path}' not available with API token, need proper ticket."
        assert (answer.status_code, answer.headers["x-pvebox-reason"]) == (403, reason)


def test_the_realms_are_visible_without_credentials(api: Api) -> None:
    shown = api.send("GET", "/access/domains", {}).json()["data"]
    assert [realm["realm"] for realm in shown] == ["pam", "pve"]
    assert api.send("GET", "/access/ticket", {}).json() == {"data": None}
    assert api.send("GET", "/access/users", {}).status_code == 401


def test_a_user_changes_the_own_password_with_the_old_one(api: Api) -> None:
    api.ask("POST", "/access/users", "root@pam!sandbox", userid="x@pve", password="long-enough")
    sent = headers(login(api, "x@pve", "long-enough").json()["data"])
    asked = {"userid": "x@pve", "password": "another-one"}
    missing = api.send("PUT", "/access/password", sent, **asked)
    assert missing.json()["errors"] == {"confirmation-password": "password is required to modify user"}
    wrong = api.send("PUT", "/access/password", sent, **asked, **{"confirmation-password": "guessed"})
    assert (wrong.status_code, wrong.json()["message"]) == (500, "invalid credentials\n")
    right = api.send("PUT", "/access/password", sent, **asked, **{"confirmation-password": "long-enough"})
    assert right.status_code == 200
    assert login(api, "x@pve", "another-one").status_code == 200
    assert login(api, "x@pve", "long-enough").status_code == 401


def test_another_users_password_needs_two_rights_and_roots_never_changes(api: Api) -> None:
    api.ask("POST", "/access/users", "root@pam!sandbox", userid="x@pve", password="long-enough")
    sent = headers(login(api, "x@pve", "long-enough").json()["data"])
    asked = {"password": "another-one", "confirmation-password": "long-enough"}
    answer = api.send("PUT", "/access/password", sent, userid="pooled@pve", **asked)
    assert answer.headers["x-pvebox-reason"] == "Permission check failed (/access/realm/pve, Realm.AllocateUser)"
    api.ask("PUT", "/access/acl", "root@pam!sandbox", path="/access", roles="PVEUserAdmin", users="x@pve")
    assert api.send("PUT", "/access/password", sent, userid="pooled@pve", **asked).status_code == 200
    assert api.send("PUT", "/access/password", sent, userid="root@pam", **asked).status_code == 403


def test_passwords_and_tickets_outlast_a_restart_and_only_hashes_are_saved(api: Api) -> None:
    data = login(api).json()["data"]
    again = memory_cluster(api.directory)
    assert tickets.holder(again.access.authkey, data["ticket"]) == "root@pam"
    assert again.access.passwords == api.cluster.access.passwords
    saved = [path for path in api.directory.rglob("*") if path.is_file()]
    assert not [path for path in saved if PASSWORD in path.read_text(errors="replace")]


def test_a_password_in_a_fixture_is_saved_as_a_hash(tmp_path: Path) -> None:
    given = {
        "nodes": {"pve": {}},
        "storages": {"local": {"type": "dir", "content": ["vztmpl"]}},
        "users": {"x@pve": {"password": PASSWORD}},
    }
    cluster = memory_cluster(tmp_path / "state", given)
    assert cluster.access.passwords["x@pve"].startswith("scrypt$")
    saved = json.loads((tmp_path / "state/cluster.json").read_text())
    assert saved["users"]["x@pve"].keys().isdisjoint({"password"})
    assert PASSWORD not in (tmp_path / "state/cluster.json").read_text()
