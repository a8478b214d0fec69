"""The sandbox's own certificate authority, and the server certificate it signs."""

from __future__ import annotations

import hashlib
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path

from .process import run


@dataclass(frozen=True)
class Certificates:
    """The files of the TLS server, and the certificate authority that clients trust."""

    ca: Path
    chain: Path
    key: Path

    def fingerprint(self) -> str:
        """Return the SHA-256 fingerprint of the server certificate, as Proxmox prints it."""
        pem = self.chain.read_text(encoding="ascii")
        first = pem[: pem.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")]
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest().upper()
        return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def ensure_certificates(directory: Path, addresses: tuple[str, ...]) -> Certificates:
    """Return certificates for localhost and these addresses; create them if the directory has none for them."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Certificates(directory / "ca.pem", directory / "server.pem", directory / "server.key")
    names = ["DNS:localhost", *(f"IP:{address}" for address in ("127.0.0.1", *addresses))]
    wanted = ",".join(names)
    note = directory / "names"
    if note.exists() and note.read_text(encoding="ascii") == wanted:
        return made
    ca_key = directory / "ca.key"
    if not made.ca.exists():
        _new_key(ca_key)
        run(
            *("openssl", "req", "-x509", "-new", "-key", str(ca_key), "-days", "3650"),
            *("-subj", "/CN=Paddock sandbox CA", "-out", str(made.ca)),
            *("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"),
        )
    _new_key(made.key)
    request = directory / "server.csr"
    run("openssl", "req", "-new", "-key", str(made.key), "-subj", "/CN=localhost", "-out", str(request))
    extensions = directory / "server.ext"
    extensions.write_text(
        f"subjectAltName={wanted}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n", encoding="ascii"
    )
    run(
        *("openssl", "x509", "-req", "-in", str(request), "-CA", str(made.ca), "-CAkey", str(ca_key)),
        *("-set_serial", _serial(), "-days", "3650", "-extfile", str(extensions), "-out", str(made.chain)),
    )
    note.write_text(wanted, encoding="ascii")
    return made


def _serial() -> str:
    return f"0x{secrets.token_hex(16)}"


def _new_key(path: Path) -> None:
    path.touch(mode=0o600)
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path))
