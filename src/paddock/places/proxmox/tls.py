"""TLS trust in a node: by its CA, by the system's store, or by the fingerprint of its certificate."""

from __future__ import annotations

import hashlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from paddock.errors import BadInput, PaddockError

# Codes of OpenSSL (X509_V_ERR_…): why a certificate was not accepted.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_OTHER_HOST: Final = frozenset({62, 64})  # another name, another IP address


def context(url: str, ca: Path | None, fingerprint: str | None) -> ssl.SSLContext:
    """Return an SSL context that accepts only the node's certificate."""
    if fingerprint is not None:
        return _pinned(url, fingerprint)
    try:
        return ssl.create_default_context(cafile=str(ca) if ca else None)
    except OSError as error:
        raise BadInput(f"cannot use the CA certificate {ca}: {error.strerror or error}") from None


def _pinned(url: str, fingerprint: str) -> ssl.SSLContext:
    """Return a context that trusts only the certificate with that fingerprint."""
    found = _certificate(url)
    if hashlib.sha256(found).hexdigest() != fingerprint.replace(":", "").lower():
        raise PaddockError(
            f"the certificate of {url} does not match the file: its SHA-256 fingerprint is {_shown(found)}",
            hint="the node has renewed its certificate, or another machine answers: before you change the file,"
            " compare the fingerprint with the output of `pvenode cert info` on the node",
        )
    pinned = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    pinned.check_hostname = False  # the fingerprint identifies the node
    pinned.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a leaf signed by the node's own CA may be the anchor
    pinned.load_verify_locations(cadata=found)
    return pinned


def _certificate(url: str) -> bytes:
    """Return the server's certificate unverified, for comparison only."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=10) as plain,
            unverified.wrap_socket(plain, server_hostname=host) as secured,
        ):
            return secured.getpeercert(binary_form=True) or b""
    except OSError as error:
        raise PaddockError(
            f"{url} does not answer: {error}", hint="check that the node is up and that the url is right"
        ) from None


def _shown(certificate: bytes) -> str:
    digest = hashlib.sha256(certificate).hexdigest().upper()
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))


def rejected(url: str, trust: ssl.SSLContext, error: Exception) -> PaddockError | None:
    """Return what to tell a person if a connection failed because of the certificate, else None."""
    reason = next((each for each in _causes(error) if isinstance(each, ssl.SSLCertVerificationError)), None)
    if reason is None:
        return None
    pinned = not trust.check_hostname
    match reason.verify_code:
        case code if code == _EXPIRED:
            hint = "renew it, as root on the node: pvecm updatecerts --force && systemctl restart pveproxy"
            hint += "; its fingerprint changes then" if pinned else ""
        case code if code == _NOT_YET_VALID:
            hint = "compare the clocks of this computer and of the node"
        case code if code in _OTHER_HOST:
            hint = "write a name or an address of the certificate as url: `pvenode cert info` on the node lists them"
        case _ if pinned:
            return PaddockError(
                f"the certificate of {url} changed while Paddock was connecting",
                hint="run the command again; it compares the new certificate with the file",
            )
        case _:
            hint = (
                "name the node's CA in the file: ca: ./pve-root-ca.pem (/etc/pve/pve-root-ca.pem on the node);"
                " or its certificate: fingerprint: … (shown by `pvenode cert info` on the node)"
            )
    return PaddockError(f"the certificate of {url} is not trusted: {reason.verify_message}", hint=hint)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
