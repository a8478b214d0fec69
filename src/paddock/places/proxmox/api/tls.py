"""TLS trust in a node: by its CA, by the system's store, or by the fingerprint of its certificate."""

from __future__ import annotations

import hashlib
import http.client
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from paddock.base import bounded
from paddock.base.clock import Wait
from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen
from paddock.base.text import one_line

# Codes of OpenSSL (X509_V_ERR_…): why a certificate was not accepted.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_OTHER_HOST: Final = frozenset({62, 64})  # another name, another IP address
_SECONDS: Final = 10
PATIENCE: Final = 5.0  # seconds for a node to accept connections, at the beginning of a run
_URL: Final = re.compile(r"https://[^/\s@]+/?")
# Proxmox answers this without a login, because its login page needs the list of realms.
_OPEN_PATH: Final = "/api2/json/access/domains"
_LARGEST: Final = 1 << 20  # bytes of that answer


@frozen
class Presented:
    """The certificate that a node presents. Nobody has verified it, unless the system's store accepts it."""

    fingerprint: str  # SHA-256, in the form that the file has
    ends: datetime
    names: tuple[str, ...]  # host names and addresses that it is valid for
    trusted: bool  # whether the system's store accepts it for this URL


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
    return _only(found)


def _only(certificate: bytes) -> ssl.SSLContext:
    """Return a context that trusts only this certificate."""
    pinned = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    pinned.check_hostname = False  # the fingerprint identifies the node
    pinned.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a leaf signed by the node's own CA may be the anchor
    pinned.load_verify_locations(cadata=certificate)
    return pinned


def presented(url: str) -> Presented:
    """Return the certificate of the node at a URL, for a person to confirm. No token is sent.

    A URL without a node behind it is an error, and so is a certificate that no pin could make usable.
    """
    if not _URL.fullmatch(url):
        raise BadInput(f"{one_line(url, 200)} is not the URL of a node", hint="it looks like https://node:8006")
    certificate = _certificate(url)
    pinned = _only(certificate)
    try:
        with _connected(url, pinned) as secured:
            details = secured.getpeercert() or {}
            _require_proxmox(url, secured)
    except ssl.SSLCertVerificationError as error:
        raise rejected(url, pinned, error) or error from None
    except OSError as error:
        raise _unanswered(url, error) from None
    return Presented(_shown(certificate), _end(details), _names(details), _is_trusted(url))


def _end(details: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(details["notAfter"]), UTC)


def _names(details: dict[str, Any]) -> tuple[str, ...]:
    listed = (value for kind, value in details.get("subjectAltName", ()) if kind in ("DNS", "IP Address"))
    return tuple(one_line(str(value), 253) for value in listed)


def _is_trusted(url: str) -> bool:
    try:
        with _connected(url, ssl.create_default_context()):
            return True
    except OSError:
        return False


def _require_proxmox(url: str, secured: ssl.SSLSocket) -> None:
    """Raise an error unless Proxmox answers on this connection."""
    host = urlsplit(url).netloc
    secured.sendall(f"GET {_OPEN_PATH} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    answer = http.client.HTTPResponse(secured)
    try:
        answer.begin()
        realms = bounded.parsed(answer.read(_LARGEST))["data"]
        known = answer.status == http.client.OK and all("realm" in realm for realm in realms)
    except (http.client.HTTPException, ValueError, LookupError, TypeError):
        known = False
    if not known:
        raise PaddockError(f"{url} is not the API of a Proxmox node", hint="the port of the API is usually 8006")


@contextmanager
def _connected(url: str, trust: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError as error:
        raise BadInput(f"{url} is not a URL: {error}", hint="it looks like https://node:8006") from None
    with (
        _plain(host, port) as plain,
        trust.wrap_socket(plain, server_hostname=host) as secured,
    ):
        yield secured


def _plain(host: str, port: int) -> socket.socket:
    """Return a connection. Try again for a few seconds while it is refused: pveproxy may be restarting."""
    wait = Wait(PATIENCE)
    while True:
        try:
            return socket.create_connection((host, port), timeout=_SECONDS)
        except ConnectionRefusedError:
            if wait.is_over:
                raise
        wait.pause()


def _certificate(url: str) -> bytes:
    """Return the server's certificate unverified, for comparison only."""
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    try:
        with _connected(url, unverified) as secured:
            return secured.getpeercert(binary_form=True) or b""
    except (OSError, UnicodeError) as error:
        raise _unanswered(url, error) from None


def _unanswered(url: str, error: Exception) -> PaddockError:
    """Return what to tell a person if there was no connection, or none with TLS."""
    match error:
        case socket.gaierror() | UnicodeError():
            name = urlsplit(url).hostname
            hint = "write the node's IP address, or check the name servers of this computer"
            return PaddockError(f"{url} does not answer: the name {name} is not known", hint=hint)
        case ssl.SSLError():
            hint = "the API of a node speaks TLS; its port is usually 8006"
            return PaddockError(f"{url} does not answer with TLS: {error.reason or error}", hint=hint)
    hint = "check that the node is up and that the url is right; the port of the API is usually 8006"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return PaddockError(f"{url} does not answer: {reason}", hint=hint)


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


def is_refused(error: Exception) -> bool:
    """Whether the node refused the connection, so that nothing was sent."""
    return any(isinstance(each, ConnectionRefusedError) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
