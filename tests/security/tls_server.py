"""A TLS server that keeps everything it decrypts, and the certificates for it."""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from paddock.base.process import run

LOCALHOST: Final = "DNS:localhost,IP:127.0.0.1"
_VERSION: Final = b'{"data":{"version":"9.2.11"}}'
_REALMS: Final = b'{"data":[{"realm":"pam","type":"pam"},{"realm":"pve","type":"pve"}]}'


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate and its key."""

    file: Path
    key: Path

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.file.read_text())).hexdigest().upper()
        return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key)
        return context


def make_certificate(
    folder: Path, name: str, *, names: str = LOCALHOST, days: int = 30, ca: Certificate | None = None
) -> Certificate:
    """Make a certificate that a CA signs, or that signs itself. Negative days make an expired one."""
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text(f"subjectAltName={names}\nbasicConstraints=CA:{'FALSE' if ca else 'TRUE'}\n")
    serial = ["-extfile", str(extensions), "-set_serial", str(int.from_bytes(name.encode()))]
    signer = ["-CA", str(ca.file), "-CAkey", str(ca.key)] if ca else ["-signkey", str(made.key)]
    for words in (
        ["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(made.key)],
        ["req", "-new", "-key", str(made.key), "-subj", f"/CN={name}", "-out", str(request)],
        ["x509", "-req", "-in", str(request), *signer, "-days", str(days), *serial, "-out", str(made.file)],
    ):
        done = run(["openssl", *words])
        assert done.ok, done.err
    return made


@dataclass
class TlsServer:
    """Answers each request as a node answers /version. ``certificates`` are used one after another, the last one on.

    With ``realms`` it answers as a node lists its realms, which needs no login.
    """

    certificates: list[Certificate]
    listener: socket.socket
    realms: bool = False
    connections: int = 0
    received: bytearray = field(default_factory=bytearray)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return  # the listener was closed
            self.connections += 1
            used = self.certificates.pop(0) if len(self.certificates) > 1 else self.certificates[0]
            with plain, suppress(OSError):
                plain.settimeout(5)
                with used.context().wrap_socket(plain, server_side=True) as secured:
                    self._answer(secured)

    def _answer(self, secured: ssl.SSLSocket) -> None:
        while data := secured.recv(65536):
            self.received += data
            if data.endswith(b"\r\n\r\n"):
                body = _REALMS if self.realms else _VERSION
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                secured.sendall(head.encode() + body)


@contextmanager
def serving(*certificates: Certificate, realms: bool = False) -> Iterator[TlsServer]:
    """Serve with these certificates on a free port of loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = TlsServer(list(certificates), listener, realms)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # close() alone does not end accept()
        listener.close()
        thread.join(10)
        assert not thread.is_alive()
