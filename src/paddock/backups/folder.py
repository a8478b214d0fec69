"""Backups in a folder of this machine: one file each, compressed with zstd, and encrypted with age if asked."""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from tempfile import mkstemp
from types import UnionType
from typing import IO, Any, Final, cast

from paddock.backups.contract import LONGEST as LONGEST_DRILL
from paddock.backups.contract import UNFINISHED, Backup, Drill, NotProven, name_at, time_of
from paddock.backups.history import from_json, hash_of
from paddock.backups.sealing import opened, recipient, seal
from paddock.backups.signing import LONGEST as LONGEST_SIGNATURE
from paddock.backups.signing import Signatures, judged, proof_of, statement
from paddock.backups.verified import Verified
from paddock.base import bounded, clock
from paddock.base.computer import write_private
from paddock.base.errors import BadInput, DiskFull, PaddockError, Refused, is_full
from paddock.base.frozen import frozen
from paddock.file.secrets.files import identities

_LONGEST_DESCRIPTION: Final = 1 << 20
_MOST_DESCRIPTIONS: Final = 64 << 20  # bytes of all of them; other accounts may have filled the folder
_MOST_VALUES: Final = 20_000  # of one
_TEXTS_WINDOW: Final = 8 << 20  # memory to decompress texts, several at a time
_DESCRIBED: Final[Mapping[str, type | UnionType]] = {
    "agent": str,
    "kind": str,
    "version": str | None,
    "files": int,
    "bytes": int,
}


@frozen
class FolderDestination:
    """The folder with the backups of one agent.

    A backup NAME is the archive NAME.tar.zst or NAME.tar.zst.age, and NAME.json, which describes it. NAME.json is
    written last: without it a backup is not complete. NAME.json.sig is a signature of NAME.json.
    """

    folder: Path
    recipients: Sequence[str]
    signatures: Signatures | None = None
    beside: Path | None = None  # the folder of the file: who can write there decides everything anyway

    @property
    def shown(self) -> str:
        return str(self.folder)

    def check(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise BadInput(f"backups cannot be kept in {self.folder}: {error.strerror}") from None
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise BadInput(f"backups cannot be kept in {self.folder}: this account may not write there")
        # Another account could replace a backup, or put a file in its place.
        if found := self._others(self._owner_of_new_files()):
            why, hint = found
            raise BadInput(f"backups cannot be kept in {self.folder}: {why}", hint=hint)
        if self.recipients:
            self._expect_own_identity()
        if self.signatures:
            self.signatures.expect_own(clock.now())

    def doubts(self, backup: Backup) -> Sequence[str]:
        found = self._others(os.geteuid()) if self.folder.is_dir() else None
        return [
            *([f"in {self.folder}, {found[0]}"] if found else []),
            *(["it is not encrypted"] if self.recipients and not backup.encrypted else []),
        ]

    def _others(self, own: int) -> tuple[str, str] | None:
        """Return which folder above a backup another account controls, and what to do; None if there is none."""
        trusted = {0, os.geteuid(), own, *([self.beside.stat().st_uid] if self.beside else [])}
        folder = self.folder.resolve()
        for each in (folder, *folder.parents):
            about, name = each.stat(), shlex.quote(str(each))
            where = "it" if each == folder else str(each)
            if about.st_uid not in trusted:
                hint = f"name a folder of this account in backup.to, or: chown {os.geteuid()} {name}"
                return f"{where} belongs to another account (uid {about.st_uid})", hint
            # Others cannot replace files in a sticky folder, but can add files to it.
            if about.st_mode & stat.S_IWOTH and not (about.st_mode & stat.S_ISVTX and each != folder):
                return f"other accounts can write to {where}", f"chmod o-w {name}"
        return None

    def _owner_of_new_files(self) -> int:
        """Return the owner that the filesystem gives to files of this account; NFS and CIFS may map all to one."""
        descriptor, path = mkstemp(dir=self.folder)
        try:
            return os.fstat(descriptor).st_uid
        finally:
            os.close(descriptor)
            Path(path).unlink()

    def _expect_own_identity(self) -> None:
        """Encrypt and decrypt a sample, so that a missing identity is noticed before a backup is needed."""
        from pyrage import DecryptError, decrypt, encrypt

        origin, keys = identities(self.folder, None)
        try:
            decrypt(encrypt(b"", [recipient(each) for each in self.recipients]), keys)
        except DecryptError:
            raise BadInput(
                f"backups in {self.folder} could not be read again: {origin} is not of a recipient",
                hint="add your own recipient to backup.recipients; `paddock secrets` prints it",
            ) from None

    def save(self, stream: Verified, made: datetime) -> Backup:
        while self._archive(name_at(made)):
            made += timedelta(seconds=1)  # names have whole seconds
        name = name_at(made)
        archive = self.folder / f"{name}.tar.zst{'.age' if self.recipients else ''}"
        try:
            return self._save(stream, made, name, archive)
        except BaseException as error:
            for path in self._files_of(name):
                path.unlink(missing_ok=True)
            if is_full(error):
                hint = (
                    "free some space there; `paddock backup prune` removes the backups that `backup.keep` does not keep"
                )
                raise DiskFull(f"there is no room for a backup in {self.folder}", hint=hint) from None
            raise

    def _save(self, stream: Verified, made: datetime, name: str, archive: Path) -> Backup:
        descriptor, created = mkstemp(dir=self.folder, prefix=f".{name}.")  # mode 0600, and never through a link
        partial = Path(created)
        with os.fdopen(descriptor, "wb") as file:
            seal(cast(IO[bytes], stream), file, self.recipients)
            file.flush()
            os.fsync(file.fileno())
        manifest = stream.manifest()
        size = partial.stat().st_size
        partial.replace(archive)
        texts = stream.texts()
        if texts:
            sealed = BytesIO()
            seal(BytesIO(json.dumps(texts).encode()), sealed, self.recipients)
            write_private(self._texts_of(name, encrypted=bool(self.recipients)), sealed.getvalue())
        about = statement(manifest, name, stream.manifest_hash(), hash_of(texts))
        about |= {"length": stream.length, "size": size}
        description, content = self.folder / f"{name}.json", json.dumps(about, indent=1).encode()
        signs = self.signatures if self.signatures and self.signatures.key else None
        if signs:
            write_private(self._signature_of(name), signs.sign(content))
        write_private(description, content)
        for path in (description, self.folder):
            _sync(path)
        return Backup(name, made, size, about, encrypted=bool(self.recipients), signed=signs is not None)

    def _signature_of(self, name: str) -> Path:
        return self.folder / f"{name}.json.sig"

    def _files_of(self, name: str) -> list[Path]:
        """Return the files of a backup. The description comes first: a backup without it does not count."""
        found = [*self.folder.glob(f"{name}.*"), *self.folder.glob(f".{name}.*")]
        return sorted(found, key=lambda path: path.suffix != ".json")

    def _texts_of(self, name: str, *, encrypted: bool) -> Path:
        return self.folder / f"{name}.texts.json.zst{'.age' if encrypted else ''}"

    def backups(self) -> list[Backup]:
        return judged([*self._listed()], encrypts=bool(self.recipients), verifies=self.signatures is not None)

    def _listed(self) -> Iterator[Backup]:
        left = _MOST_DESCRIPTIONS
        for file in self.folder.glob("*.json") if self.folder.is_dir() else ():
            made = time_of(file.stem)
            if made is None:
                continue
            with suppress(OSError, ValueError, KeyError, TypeError, bounded.TooLarge):
                content = bounded.content(file, _LONGEST_DESCRIPTION)
                left -= len(content)
                if left < 0:
                    raise PaddockError(
                        f"the descriptions of the backups in {self.folder} are longer than"
                        f" {bounded.in_words(_MOST_DESCRIPTIONS)} together",
                        hint="remove files there that are not yours, or old backups",
                    )
                about: dict[str, Any] = bounded.parsed(content, _MOST_VALUES)
                archive = self._archive(file.stem)
                if archive and all(isinstance(about[key], wanted) for key, wanted in _DESCRIBED.items()):
                    encrypted, signed = archive.suffix == ".age", self._signature_of(file.stem).exists()
                    size = archive.stat().st_size
                    yield Backup(file.stem, made, size, about, encrypted=encrypted, signed=signed)

    def _archive(self, name: str) -> Path | None:
        """Return the archive of a backup. A plain one beside the encrypted one is not Paddock's."""
        both = (self.folder / f"{name}.tar.zst{suffix}" for suffix in (".age", ""))
        return next((each for each in both if each.exists()), None)

    def read(self, backup: Backup) -> AbstractContextManager[IO[bytes]]:
        if backup.distrust and backup.distrust.final:
            raise Refused(f"backup {backup.name} is not used: {backup.distrust.why}")
        archive = self.folder / f"{backup.name}.tar.zst{'.age' if backup.encrypted else ''}"
        if not archive.exists():
            raise PaddockError(f"the backup {backup.name} is not in {self.folder}")
        return opened(archive, encrypted=backup.encrypted)

    def proven(self, backup: Backup) -> Backup:
        if self.signatures is None:
            return backup
        if not backup.signed:
            raise NotProven("it is not signed")
        try:
            content = bounded.content(self.folder / f"{backup.name}.json", _LONGEST_DESCRIPTION)
            signature = bounded.content(self._signature_of(backup.name), LONGEST_SIGNATURE)
        except OSError as error:
            raise NotProven(f"its signature cannot be read: {error.strerror or error}") from None
        by = self.signatures.signer(content, signature, backup.made)
        return proof_of(backup, content, by)

    def signer(self, backup: Backup) -> str:
        if self.signatures is None or not backup.signed:
            return "not checked" if backup.signed else "none"
        try:
            proof = self.proven(backup).proof
        except PaddockError:
            return "not valid"
        return proof.by if proof else "none"

    def remove(self, backups: Sequence[Backup]) -> None:
        for name in (*(each.name for each in backups), *self._unfinished()):
            for path in self._files_of(name):
                path.unlink(missing_ok=True)

    def _unfinished(self) -> set[str]:
        """Return the names of backups that were interrupted long ago."""
        now = clock.now()
        names = {path.name.removeprefix(".").partition(".")[0] for path in self.folder.glob("*")}
        made = {name: time_of(name) for name in names if not (self.folder / f"{name}.json").exists()}
        return {name for name, when in made.items() if when and now - when > UNFINISHED}

    def texts(self, backup: Backup) -> Mapping[str, str] | None:
        path = self._texts_of(backup.name, encrypted=backup.encrypted)
        if not path.exists():
            return None
        with opened(path, encrypted=backup.encrypted, window=_TEXTS_WINDOW) as stream:
            return from_json(stream, proof=backup.proof)

    def note_drill(self, drill: Drill) -> None:
        write_private(self._drill, drill.as_json())

    def last_drill(self) -> Drill | None:
        return Drill.from_json(bounded.content(self._drill, LONGEST_DRILL)) if self._drill.exists() else None

    @property
    def _drill(self) -> Path:
        return self.folder / "drill.json"


def _sync(path: Path) -> None:
    """Write a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
