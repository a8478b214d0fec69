"""The sandbox's own certificate authority, and the server certificate it signs."""

from __future__ import annotations

import re
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pvebox.server.process import run

# The name of the server's own certificate on a Proxmox node.
OWN: Final = "pve-ssl.pem"


@dataclass(frozen=True)
class CertificateInfo:
    """The facts about a certificate that Proxmox shows. The times are Unix times."""

    filename: str
    fingerprint: str
    notbefore: int
    notafter: int
    subject: str = ""
    issuer: str = ""
    san: tuple[str, ...] = ()
    pem: str = ""

    @classmethod
    def from_file(cls, filename: str, file: Path) -> CertificateInfo:
        """Read the first certificate of a PEM file."""
        told = run(
            *("openssl", "x509", "-in", str(file), "-subject", "-issuer", "-dates", "-fingerprint", "-sha256"),
            *("-nameopt", "compat", "-ext", "subjectAltName"),
        )
        facts = dict(re.findall(r"^([\w ]+)=(.*)$", told, re.MULTILINE))
        return cls(
            filename,
            fingerprint=next(value for key, value in facts.items() if key.lower() == "sha256 fingerprint"),
            notbefore=int(ssl.cert_time_to_seconds(facts["notBefore"])),
            notafter=int(ssl.cert_time_to_seconds(facts["notAfter"])),
            subject=facts["subject"],
            issuer=facts["issuer"],
            san=tuple(re.findall(r"(?:DNS|IP Address):([^,\s]+)", told)),
            pem=told[told.index("-----BEGIN CERTIFICATE-----") :],
        )

    def entry(self) -> dict[str, Any]:
        """Return the certificate in the format of the API."""
        return {**vars(self), "san": [*self.san], "public-key-type": "id-ecPublicKey", "public-key-bits": 256}


@dataclass(frozen=True)
class Certificates:
    """The files of the TLS server, and the certificate authority that clients trust."""

    ca: Path
    chain: Path
    key: Path

    def described(self) -> list[CertificateInfo]:
        """Return the facts about both certificates, with their names on a Proxmox node."""
        return [
            CertificateInfo.from_file("pve-root-ca.pem", self.ca),
            CertificateInfo.from_file(OWN, self.chain),
        ]


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
            *("-subj", "/CN=pvebox CA", "-out", str(made.ca)),
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
        *("-set_serial", f"0x{secrets.token_hex(16)}", "-days", "3650"),
        *("-extfile", str(extensions), "-out", str(made.chain)),
    )
    note.write_text(wanted, encoding="ascii")
    return made


def _new_key(path: Path) -> None:
    path.touch(mode=0o600)
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path))
