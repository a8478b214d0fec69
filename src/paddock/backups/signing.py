"""Signatures of backups: a statement about each is signed with an ssh key, and only trusted backups are used."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from paddock.backups.contract import Backup, Distrust, NotProven, Proof
from paddock.backups.verified import described
from paddock.base import bounded, process
from paddock.base.errors import BadInput
from paddock.base.frozen import frozen
from paddock.base.process import Result
from paddock.base.text import one_line
from paddock.onboard.stream.layout import Json

NAMESPACE: Final = "paddock-backup"  # a signature for something else, such as a commit, does not count
LONGEST: Final = 64 << 10  # bytes of a signature
_SECONDS: Final = 30.0
_TRIED: Final = b"paddock"


@frozen
class Signatures:
    """Whose signatures count, and the key that signs."""

    allowed: Path  # in the format of ssh-keygen's allowed_signers
    key: Path | None = None  # a private key without a passphrase, or one that the ssh-agent has

    def expect_own(self, now: datetime) -> None:
        """Sign and verify a sample, so that a wrong key is noticed before a backup is needed."""
        if self.key is None:
            return
        try:
            self.signer(_TRIED, self.sign(_TRIED), now)
        except NotProven as error:
            raise BadInput(
                f"signatures of {self.key} would not count: {error.message}",
                hint=f"add a line with the public half of that key to {self.allowed}, and keep those of former keys",
            ) from None

    def sign(self, content: bytes) -> bytes:
        """Return a signature."""
        done = _keygen("sign", "-f", str(self.key), "-n", NAMESPACE, stdin=content)
        if not done.ok:
            raise BadInput(
                f"backups cannot be signed with {self.key}: {_reason(done)}",
                hint="backup.signatures.key needs a key without a passphrase, or one that the ssh-agent has;"
                " in place of a lost key, name a new one and add its line to the file of allowed signers",
            )
        return done.out.encode()

    def signer(self, content: bytes, signature: bytes, at: datetime) -> str:
        """Return the name of the signer, whose key was allowed at that time. Raise if there is none."""
        if not self.allowed.is_file():
            raise NotProven(f"{self.allowed}, which says whose signatures count, is not a file here")
        time = f"-Overify-time={at.astimezone():%Y%m%d%H%M%S}"  # in the time zone of this machine
        with tempfile.NamedTemporaryFile(prefix="paddock-") as file:
            file.write(signature[:LONGEST])
            file.flush()
            given = ("-s", file.name, "-f", str(self.allowed), time)
            found = _keygen("find-principals", *given)
            name = found.out.split("\n")[0].strip()
            if not found.ok or not name:
                raise NotProven(f"nobody in {self.allowed} has made its signature: {_reason(found)}")
            done = _keygen("verify", *given, "-I", name, "-n", NAMESPACE, stdin=content)
        if not done.ok:
            raise NotProven(f"its signature of {one_line(name, 100)} is not valid: {_reason(done)}")
        return one_line(name, 100)


def _keygen(what: str, *arguments: str, stdin: bytes = b"") -> Result:
    # In a session of its own, it cannot ask for a passphrase on the terminal.
    return process.run(["ssh-keygen", "-Y", what, *arguments], stdin=stdin, deadline=_SECONDS, own_session=True)


def _reason(done: Result) -> str:
    lines = [line for line in (done.err or done.out).split("\n") if line.strip()]
    return one_line(lines[-1] if lines else f"ssh-keygen ended with {done.code}", 200)


def statement(manifest: Json, name: str, manifest_hash: str, texts_hash: str) -> Json:
    """Return the statement about a backup: its agent, and hashes of everything in it."""
    return {**described(manifest), "backup": name, "manifest": manifest_hash, "texts": texts_hash}


def proof_of(backup: Backup, content: bytes, by: str) -> Backup:
    """Return a backup with its signed statement. Raise if the statement is about another backup."""
    try:
        said = bounded.parsed(content)
        proof = Proof(by, str(said["manifest"]), str(said["texts"]))
        other = (said["backup"], said["agent"]) != (backup.name, backup.about["agent"])
    except (ValueError, KeyError, TypeError):
        raise NotProven(f"what {by} has signed is not about a backup") from None
    if other:
        raise NotProven(f"what {by} has signed is about another backup")
    return replace(backup, about={**backup.about, **said}, proof=proof)


def judged(listed: Sequence[Backup], *, encrypts: bool, verifies: bool) -> list[Backup]:
    """Return the backups. Those that are less than a backup from before them say why they do not count.

    Who can write to a destination can add files there. Only the owner of a key could have gone on with encrypted or
    signed backups, so a later one that is neither is somebody else's, or made without that part of the file.
    """
    found = sorted(listed, key=lambda each: each.made)
    encrypted = next((each for each in found if each.encrypted), None) if encrypts else None
    signed = next((each for each in found if each.signed), None) if verifies else None
    return [replace(each, distrust=_distrust(each, encrypted, signed)) for each in found]


def _distrust(backup: Backup, encrypted: Backup | None, signed: Backup | None) -> Distrust | None:
    if encrypted and not backup.encrypted and backup.made > encrypted.made:
        return Distrust(f"it is not encrypted, and an older one, {encrypted.name}, is", final=True)
    if signed and not backup.signed and backup.made > signed.made:
        return Distrust(f"it is not signed, and an older one, {signed.name}, is", final=False)
    return None
