"""Backups in a folder of this machine: one file each, compressed with zstd, and encrypted with age if asked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import IO, Any, cast

from paddock.backups import Backup, name_at, time_of
from paddock.backups.drills import Drill
from paddock.backups.sealing import opened, seal
from paddock.backups.verified import Verified, described
from paddock.errors import BadInput, PaddockError
from paddock.spec.agefile import identities
from paddock.spec.private import write_private


@dataclass(frozen=True)
class FolderDestination:
    """The folder with the backups of one agent.

    A backup NAME is the archive NAME.tar.zst or NAME.tar.zst.age, and NAME.json, which says what is in it. NAME.json is
    written last: without it a backup is not complete.
    """

    folder: Path
    recipients: Sequence[str]

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
        if self.recipients:
            self._expect_own_identity()

    def _expect_own_identity(self) -> None:
        """Encrypt and decrypt something: that a backup cannot be read is noticed now, and not when it is needed."""
        from pyrage import DecryptError, decrypt, encrypt

        from paddock.backups.sealing import recipient

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
        partial = self.folder / f".{name}.partial"
        archive = self.folder / f"{name}.tar.zst{'.age' if self.recipients else ''}"
        try:
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                seal(cast(IO[bytes], stream), file, self.recipients)
                file.flush()
                os.fsync(file.fileno())
            manifest = stream.manifest()
            size = partial.stat().st_size
            partial.replace(archive)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        if texts := stream.texts():
            self._write_texts(name, texts)
        about = {**described(manifest), "length": stream.length, "size": size}
        write_private(self.folder / f"{name}.json", json.dumps(about, indent=1).encode())
        return Backup(name, made, size, about)

    def _write_texts(self, name: str, texts: Mapping[str, str]) -> None:
        sealed = BytesIO()
        seal(BytesIO(json.dumps(texts).encode()), sealed, self.recipients)
        write_private(self._texts_of(name), sealed.getvalue())

    def _texts_of(self, name: str) -> Path:
        return self.folder / f"{name}.texts.json.zst{'.age' if self.recipients else ''}"

    def backups(self) -> list[Backup]:
        return sorted(self._listed(), key=lambda each: each.made)

    def _listed(self) -> Iterator[Backup]:
        for file in self.folder.glob("*.json") if self.folder.is_dir() else ():
            made = time_of(file.stem)
            if made is None:
                continue
            with suppress(OSError, ValueError, KeyError, TypeError):
                about: dict[str, Any] = json.loads(file.read_bytes())
                if archive := self._archive(file.stem):
                    yield Backup(file.stem, made, archive.stat().st_size, about)

    def _archive(self, name: str) -> Path | None:
        both = (self.folder / f"{name}.tar.zst{suffix}" for suffix in ("", ".age"))
        return next((each for each in both if each.exists()), None)

    def read(self, backup: Backup) -> AbstractContextManager[IO[bytes]]:
        archive = self._archive(backup.name)
        if archive is None:
            raise PaddockError(f"the backup {backup.name} is not in {self.folder}")
        return opened(archive, encrypted=archive.suffix == ".age")

    def remove(self, backups: Sequence[Backup]) -> None:
        # The description first: a backup without it does not count, so that no half of one is ever listed.
        for pattern in (pattern for each in backups for pattern in (f"{each.name}.json", f"{each.name}.*")):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def texts(self, backup: Backup) -> Mapping[str, str] | None:
        for suffix in ("", ".age"):
            path = self.folder / f"{backup.name}.texts.json.zst{suffix}"
            if path.exists():
                with opened(path, encrypted=bool(suffix)) as stream:
                    found: dict[str, str] = json.loads(stream.read())
                    return found
        return None

    def note_drill(self, drill: Drill) -> None:
        write_private(self._drill, drill.as_json())

    def last_drill(self) -> Drill | None:
        return Drill.from_json(self._drill.read_bytes()) if self._drill.exists() else None

    @property
    def _drill(self) -> Path:
        return self.folder / "drill.json"
