"""A node whose certificate is wrong gets no token, and a person is told what to do."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from paddock.base.errors import PaddockError
from paddock.base.secret import Secret
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.client import Client
from security.tls_server import Certificate, TlsServer, make_certificate, serving

TOKEN: Final = "ops@pve!auto=canary-of-the-token"
ZEROS: Final = ":".join(["00"] * 32)


@dataclass(frozen=True)
class Certificates:
    """Every certificate that a case needs."""

    ca: Certificate
    good: Certificate
    renewed: Certificate
    expired: Certificate
    other_host: Certificate
    other_ca: Certificate
    self_signed: Certificate


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    ca, other = make_certificate(folder, "ca"), make_certificate(folder, "other-ca")
    return Certificates(
        ca,
        make_certificate(folder, "good", ca=ca),
        make_certificate(folder, "renewed", ca=ca),
        make_certificate(folder, "expired", ca=ca, days=-1),
        make_certificate(folder, "other-host", ca=ca, names="DNS:pve.example,IP:192.0.2.1"),
        make_certificate(folder, "by-another-ca", ca=other),
        make_certificate(folder, "self-signed"),
    )


@dataclass(frozen=True)
class Case:
    """What the server shows, what the file says, and what Paddock answers."""

    shown: Callable[[Certificates], tuple[Certificate, ...]]
    message: str
    hint: str
    ca: bool = False  # the file names the CA
    pin: Callable[[Certificates], str] | None = None  # the file has this fingerprint


CASES: Final = {
    "wrong fingerprint": Case(
        lambda made: (made.good,),
        "does not match the file: its SHA-256 fingerprint is {good}",
        "pvenode cert info",
        pin=lambda _: ZEROS,
    ),
    "pinned, and renewed since": Case(
        lambda made: (made.renewed,),
        "does not match the file: its SHA-256 fingerprint is {renewed}",
        "pvenode cert info",
        pin=lambda made: made.good.fingerprint,
    ),
    "pinned, and replaced after the comparison": Case(
        lambda made: (made.good, made.self_signed),
        "changed while Paddock was connecting",
        "run the command again",
        pin=lambda made: made.good.fingerprint,
    ),
    "pinned, and expired": Case(
        lambda made: (made.expired,),
        "certificate has expired",
        "pvecm updatecerts --force",
        pin=lambda made: made.expired.fingerprint,
    ),
    "expired": Case(lambda made: (made.expired,), "certificate has expired", "pvecm updatecerts --force", ca=True),
    "another host": Case(
        lambda made: (made.other_host,),
        "not valid for '127.0.0.1'",
        "write a name or an address of the certificate as url",
        ca=True,
    ),
    "another CA": Case(lambda made: (made.other_ca,), "unable to get local issuer", "pve-root-ca.pem", ca=True),
    "self-signed, without a pin": Case(lambda made: (made.self_signed,), "self-signed", "fingerprint"),
}

ASK: Final[dict[str, Callable[[Client], object]]] = {
    "read": lambda client: client.get("/version"),
    "write": lambda client: client.send("POST", "/nodes/pve/lxc", {"vmid": 100}),
}


def connected(case: Case, made: Certificates, server: TlsServer) -> Client:
    pin = case.pin(made) if case.pin else None
    context = tls.context(server.url, made.ca.file if case.ca else None, pin)
    return Client(server.url, "pve", Secret(TOKEN), context)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("ask", ASK)
def test_a_wrong_certificate_is_refused_before_the_token_is_sent(made: Certificates, case: Case, ask: str) -> None:
    with serving(*case.shown(made)) as server:
        with pytest.raises(PaddockError) as caught:
            ASK[ask](connected(case, made, server))
        assert server.received == b""
        assert server.connections <= (2 if case.pin else 1), "another try would not help"
    fingerprints = {name: each.fingerprint for name, each in vars(made).items()}
    assert case.message.format(**fingerprints) in caught.value.message
    assert case.hint in str(caught.value.hint)
    assert "canary" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("trust", ["ca", "pin"])
def test_the_token_reaches_a_node_with_the_right_certificate(made: Certificates, trust: str) -> None:
    """The server does see a token that is sent: without this, the test above could not fail."""
    pin = made.good.fingerprint if trust == "pin" else None
    with serving(made.good) as server:
        client = Client(server.url, "pve", Secret(TOKEN), tls.context(server.url, made.ca.file, pin))
        assert client.get("/version") == {"version": "9.2.11"}
        client.close()
        assert f"Authorization: PVEAPIToken={TOKEN}".encode() in server.received


def test_a_client_that_verifies_nothing_is_found(made: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    monkeypatch.setattr(tls, "context", lambda *_: blind)
    for name, case in CASES.items():
        with serving(*case.shown(made)) as server:
            client = connected(case, made, server)
            client.get("/version")
            client.close()
            assert TOKEN.encode() in server.received, name


def test_doctor_says_what_to_do_about_a_certificate(
    made: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paddock: Any
) -> None:
    place = {"node": "pve", "token": {"env": "PVE_TOKEN"}, "storage": "local-lvm", "base": "local:vztmpl/x.tar.zst"}
    monkeypatch.setenv("PVE_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "id").touch(mode=0o600)
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKpublic paddock\n")
    (tmp_path / "ca.pem").write_bytes(made.ca.file.read_bytes())
    for trust in ({"ca": "ca.pem"}, {"fingerprint": made.good.fingerprint}):
        with serving(made.expired) as server:
            whole = {"url": server.url, **place, **trust, "ssh": {"key": "id"}}
            agents = {"bee": {"kind": "service", "command": ["/bin/true"], "place": "home"}}
            written = {"project": "home", "places": {"home": {"proxmox": whole}}, "agents": agents}
            (tmp_path / "paddock.yaml").write_text(str(written))
            said = paddock("doctor")
            assert server.received == b""
        assert said.code != 0
        assert ("pvecm updatecerts" if "ca" in trust else "pvenode cert info") in said.out + said.err
        assert "canary" not in said.out + said.err
