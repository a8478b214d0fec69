"""What a node tells about itself and about tokens: clock, certificates, expiry."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from pvebox.access.accounts import AclEntry, Group
from pvebox.console.console import Console
from pvebox.server.certificates import CertificateInfo, ensure_certificates
from sandbox.inprocess import Api

DAILY, ROOT = "pooled@pve!daily", "root@pam!sandbox"
OWN_TOKEN = "/access/users/pooled@pve/token/daily"


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path / "state")


@pytest.mark.parametrize("path", ["/version", "/nodes/pve/status", "/nosuch"])
def test_every_answer_has_the_date_of_the_nodes_clock(api: Api, path: str) -> None:
    for ahead in (0, 3600, -86_400):
        api.cluster.clock_offset = ahead
        date = api.ask("GET", path, DAILY).headers["date"]
        assert date.endswith(" GMT")
        assert abs(parsedate_to_datetime(date).timestamp() - time.time() - ahead) < 5


def test_an_injected_answer_has_a_date(api: Api) -> None:
    api.rule("answer", "500")
    assert "date" in api.ask("GET", "/version").headers


def test_any_token_reads_the_nodes_certificates(api: Api, tmp_path: Path) -> None:
    began = int(time.time())
    api.cluster.certificates = ensure_certificates(tmp_path / "tls", ("10.9.8.7",)).described()
    authority, own = api.ask("GET", "/nodes/pve/certificates/info", DAILY).json()["data"]
    assert (authority["filename"], own["filename"]) == ("pve-root-ca.pem", "pve-ssl.pem")
    assert (own["subject"], own["issuer"]) == ("/CN=localhost", "/CN=pvebox CA")
    assert own["san"] == ["localhost", "127.0.0.1", "10.9.8.7"]
    assert own["notbefore"] >= began - 1
    assert own["notafter"] - own["notbefore"] == 3650 * 86_400
    assert own["pem"].startswith("-----BEGIN CERTIFICATE-----")
    assert api.data("GET", "/nodes")[0]["ssl_fingerprint"] == own["fingerprint"]
    assert len(own["fingerprint"]) == 32 * 3 - 1


def test_a_test_can_make_the_certificate_expire_soon(api: Api) -> None:
    soon = int(time.time()) + 86_400
    api.cluster.certificates = [CertificateInfo("pve-ssl.pem", "AA:BB", notbefore=0, notafter=soon)]
    [own] = api.ask("GET", "/nodes/pve/certificates/info", DAILY).json()["data"]
    assert (own["fingerprint"], own["notafter"]) == ("AA:BB", soon)


def test_a_token_needs_a_right_to_read_its_own_expiry(api: Api) -> None:
    api.cluster.access.tokens[DAILY].expire = 2_000_000_000
    assert api.reason("GET", OWN_TOKEN, DAILY) == "Permission check failed"
    assert api.reason("GET", "/access/users/pooled@pve", DAILY) == "Permission check failed"
    assert api.ask("GET", "/access/users", DAILY, full=1).json()["data"] == []
    read = api.ask("GET", OWN_TOKEN, ROOT).json()["data"]
    assert read == {"privsep": 1, "expire": 2_000_000_000}


def test_a_right_on_a_group_lets_a_token_read_the_tokens_of_its_members(api: Api) -> None:
    api.cluster.access.tokens[DAILY].expire = 2_000_000_000
    api.cluster.access.groups["agents"] = Group({"pooled@pve"})
    assert Console(api.cluster).run(["pveum", "role", "add", "Look", "--privs", "Sys.Audit"]).code == 0
    api.cluster.access.acl += [AclEntry("/access/groups/agents", who, "Look") for who in ("pooled@pve", DAILY)]
    user = api.ask("GET", "/access/users/pooled@pve", DAILY).json()["data"]
    assert user["tokens"]["daily"] == {"privsep": 1, "expire": 2_000_000_000}
    [listed] = api.ask("GET", "/access/users", DAILY, full=1).json()["data"]
    assert (listed["userid"], [token["tokenid"] for token in listed["tokens"]]) == ("pooled@pve", ["daily", "setup"])
    assert api.reason("GET", "/access/users/paddock@pve", DAILY) == "Permission check failed"
    assert api.reason("GET", OWN_TOKEN, DAILY) == "Permission check failed", "that needs User.Modify"
