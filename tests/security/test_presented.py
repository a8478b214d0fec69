"""The certificate that `init` shows to a person: of a node, before anything is trusted."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paddock.base.errors import BadInput, PaddockError
from paddock.base.secret import Secret
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.tls import context, presented
from paddock.places.proxmox.node.survey import connect, who
from pvebox import main
from security.tls_server import make_certificate, serving
from sshd import free_port


def told(url: str) -> str:
    with pytest.raises(PaddockError) as caught:
        presented(url)
    assert caught.value.hint
    return f"{caught.value.message} | {caught.value.hint}"


def test_the_certificate_of_a_node_is_shown_and_can_be_pinned(tmp_path: Path) -> None:
    ca = make_certificate(tmp_path, "ca")
    made = make_certificate(tmp_path, "node", names="DNS:pve.example,IP:127.0.0.1", ca=ca)
    with serving(made, realms=True) as server:
        shown = presented(server.url)
        assert shown.fingerprint == made.fingerprint
        assert shown.names == ("pve.example", "127.0.0.1")
        assert timedelta(days=29) < shown.ends - datetime.now(UTC) < timedelta(days=31)
        assert not shown.trusted
        assert context(server.url, None, shown.fingerprint)
        assert b"PVEAPIToken" not in server.received


def test_a_certificate_that_the_system_s_store_accepts_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = make_certificate(tmp_path, "ca")
    monkeypatch.setenv("SSL_CERT_FILE", str(ca.file))
    with serving(make_certificate(tmp_path, "node", ca=ca), realms=True) as server:
        assert presented(server.url).trusted
    with serving(make_certificate(tmp_path, "other", ca=ca, names="DNS:pve.example"), realms=True) as server:
        assert not presented(server.url).trusted  # of another host


def test_an_expired_certificate_is_refused_because_no_pin_makes_it_usable(tmp_path: Path) -> None:
    with serving(make_certificate(tmp_path, "node", days=-1), realms=True) as server:
        assert "certificate has expired | renew it, as root on the node: pvecm updatecerts" in told(server.url)


def test_a_certificate_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    first, second = make_certificate(tmp_path, "first"), make_certificate(tmp_path, "second")
    with serving(first, second, realms=True) as server:
        assert "changed while Paddock was connecting | run the command again" in told(server.url)


def test_another_server_is_not_a_node(tmp_path: Path) -> None:
    with serving(make_certificate(tmp_path, "web")) as server:
        assert "is not the API of a Proxmox node | the port of the API is usually 8006" in told(server.url)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.0 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_a_port_without_tls_is_told(said: bytes) -> None:
    def answer(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        assert "does not answer" in told(f"https://127.0.0.1:{listener.getsockname()[1]}")
        listener.shutdown(socket.SHUT_RDWR)


def test_an_address_without_a_server_does_not_answer() -> None:
    assert "does not answer: Connection refused" in told(f"https://127.0.0.1:{free_port()}")
    assert "the name node.invalid is not known | write the node's IP address" in told("https://node.invalid:8006")
    assert "does not answer" in told(f"https://{'x' * 70}.invalid:8006")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "node:8006",
        "http://node:8006",
        "https://",
        "https://node:8006/api2/json",
        "https://a b:8006",
        "https://u@node",
    ],
)
def test_another_text_is_not_the_url_of_a_node(url: str) -> None:
    with pytest.raises(BadInput, match="is not the URL of a node"):
        presented(url)


@pytest.mark.parametrize("url", ["https://node:port", "https://node:99999", "https://[::1"])
def test_a_url_with_a_wrong_port_or_host_is_bad_input(url: str) -> None:
    with pytest.raises(BadInput):
        presented(url)


def test_a_sandbox_is_a_node(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over real TLS: what is shown can be pinned, root's lines come from a pipe, and the token's standing is read."""
    state = ["--state", str(tmp_path / "state")]
    lines = tmp_path / "lines.txt"
    lines.write_text("# a comment\npveum user add a@pve || true\n\npveum user token add a@pve one --privsep 1\n")
    try:
        assert main(["up", "--runtime", "memory", "--port", "0", "--delay-401", "0", *state]) == 0
        ready = json.loads(capfd.readouterr().out)
        shown = presented(ready["url"])
        with lines.open() as pasted:
            monkeypatch.setattr("sys.stdin", pasted)
            assert main(["root", *state]) == 0
        table = capfd.readouterr().out
        assert table.startswith("┌")
        secret = table.split("│ value        │ ")[1].split(" ")[0]
        for value, accepted in ((secret, True), ("00000000-0000-0000-0000-000000000000", False)):
            client: Client = connect(ready["url"], Secret(f"a@pve!one={value}"), shown.fingerprint)
            try:
                standing = who(client)
            finally:
                client.close()
            assert (standing.accepted, standing.holds_nothing) == (accepted, accepted)
    finally:
        main(["clean", *state])
