"""Backups in a restic repository, which deduplicates, encrypts and compresses them."""

from __future__ import annotations

import io
import json
import re
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import IO, Any, Final, cast

from paddock.backups.contract import LONGEST as LONGEST_DRILL
from paddock.backups.contract import UNFINISHED, Backup, Drill, NotProven, name_at, time_of
from paddock.backups.history import from_json, hash_of, within
from paddock.backups.repository import NoRepository, Repository
from paddock.backups.sealing import Read
from paddock.backups.signing import LONGEST as LONGEST_SIGNATURE
from paddock.backups.signing import Signatures, judged, proof_of, statement
from paddock.backups.verified import Incomplete, Verified
from paddock.base import bounded, clock
from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.process import Pipes
from paddock.file.agent_id import AgentId
from paddock.onboard.stream.layout import BLOCK, MANIFEST, BadStream, Json, parse_manifest

_COMPLETE: Final = "complete"
_DRILL: Final = "drill"
_SIGNED: Final = "signed"
_MOST_PRINTED: Final = 1 << 20  # bytes that restic prints about a backup
_BEYOND: Final = 64 << 20  # bytes of an archive that are read back with its manifest
_NUMBERS: Final = ("files", "bytes", "length", "size")
_WORDS: Final = ("kind", "version", "from", "purpose")
# The machine chooses these values. restic splits tags at commas.
_SHORT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,63}")
_AGENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

_creating = threading.Lock()  # restic does not notice that two processes create one repository


@frozen
class _Snapshot:
    id: str
    tree: str
    path: str
    time: datetime
    tags: Mapping[str, str]
    original: str | None  # its id before restic changed its tags or copied it

    @classmethod
    def from_json(cls, data: Json) -> _Snapshot:
        tags = dict(str(tag).partition("=")[::2] for tag in data.get("tags") or ())
        made = datetime.fromisoformat(data["time"])
        identity, tree, path = (str(each) for each in (data["id"], data["tree"], data["paths"][0]))
        original = data.get("original")
        return cls(identity, tree, path, made, tags, None if original is None else str(original))


@frozen
class _Pair:
    """A complete backup: the archive, and the snapshot that marks it as complete."""

    archive: _Snapshot
    mark: _Snapshot


@frozen
class ResticDestination:
    """The backups of one agent in a repository.

    restic saves whatever comes before the end of its input, also if the sender was killed. So a backup is two
    snapshots. The first one is AGENT.tar, the plain stream. After its end was read back from the repository, the second
    one is made: AGENT.json, with the tag `complete` and the id of the first. A list shows its tags. A tag on the
    first snapshot itself would need an exclusive lock, which fails while any other backup to the repository runs.
    """

    repository: Repository
    agent: AgentId
    say: Callable[[str], None]
    signatures: Signatures | None = None

    def __post_init__(self) -> None:
        if not _AGENT.fullmatch(str(self.agent)):
            raise PaddockError(f"{str(self.agent)!r} cannot be a tag of restic")

    @property
    def shown(self) -> str:
        return self.repository.shown

    def check(self) -> None:
        with _creating:
            try:
                self.repository.expect()
            except NoRepository:
                self.say(f"there is no restic repository in {self.shown} yet: `restic init` creates it")
                self.repository.output("init")
        if self.signatures:
            self.signatures.expect_own(clock.now())

    def save(self, stream: Verified, made: datetime) -> Backup:
        name = name_at(made)
        arguments = self._saving(f"{self.agent}.tar", [f"backup={name}"])
        with self.repository.piped(*arguments) as restic:
            sent = self._send(stream, restic)
            manifest = stream.manifest()  # raises if it is not complete; restic is killed then, its input still open
            restic.sink.close()
            printed = bounded.at_most(restic.source, _MOST_PRINTED, "what restic says about the backup")
            self.repository.end(restic)
        with self._readable():
            summary = bounded.parsed(printed.strip().rpartition(b"\n")[2])
            archive = self._found(str(summary["snapshot_id"]))
            size = int(summary.get("data_added_packed", summary["data_added"]))
        self._read_back(archive, sent, manifest)
        texts = stream.texts()
        about = statement(manifest, name, stream.manifest_hash(), hash_of(texts)) | {"length": sent, "size": size}
        said = json.dumps(about)
        signs = self.signatures if self.signatures and self.signatures.key else None
        signed = {"said": said, "signature": signs.sign(said.encode()).decode()} if signs else {}
        content = json.dumps({"about": about, "texts": texts, **signed}).encode()
        tags = [f"backup={name}", _COMPLETE, *([_SIGNED] if signs else []), f"of={archive.id}", *_tags(about)]
        self.repository.output(*self._saving(f"{self.agent}.json", tags), stdin=content)
        return Backup(name, made, size, about, signed=signs is not None)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn an unexpected form of restic's output into an error for people."""
        try:
            yield
        except (ValueError, LookupError, TypeError, AttributeError):
            raise PaddockError(f"what restic says about {self.shown} cannot be read") from None

    def _saving(self, file: str, tags: Sequence[str]) -> list[str]:
        words = ["paddock", f"agent={self.agent}", *tags]
        host = self.agent.project or "paddock"
        return ["backup", "--json", "--stdin", f"--stdin-filename={file}", f"--host={host}", f"--tag={','.join(words)}"]

    def _send(self, stream: Verified, restic: Pipes) -> int:
        """Send a stream to restic and return its length."""
        sent = 0
        try:
            while data := stream.read(BLOCK):
                restic.sink.write(data)
                sent += len(data)
            restic.sink.flush()
        except BrokenPipeError:
            self.repository.end(restic)
            raise PaddockError(f"restic ended before the stream to {self.shown} did") from None
        return sent

    def _read_back(self, archive: _Snapshot, sent: int, manifest: Json) -> None:
        """Read the end of an archive from the repository, and compare its length and its manifest."""
        with self._readable():
            tree = bounded.parsed(self.repository.output("cat", "blob", archive.tree))
            [file] = tree["nodes"]
            size, blobs = int(file["size"]), [str(each) for each in file["content"]]
        if size != sent:
            raise Incomplete(f"{self.shown} has {size} of {sent} bytes of the stream")
        end, most = b"", len(json.dumps(manifest)) + _BEYOND
        for blob in reversed(blobs):
            end = self.repository.output("cat", "blob", blob) + end
            if len(end) > most:
                break
            found = _manifest_in(end)
            if found == manifest:
                return
            if found is not None:
                break
        raise Incomplete(f"the manifest in {self.shown} is not the one that was sent")

    def _snapshots(self) -> list[_Snapshot]:
        printed = self.repository.output("snapshots", "--json", f"--tag=paddock,agent={self.agent}")
        with self._readable():
            return [_Snapshot.from_json(each) for each in bounded.parsed(printed) or ()]

    def _found(self, start: str) -> _Snapshot:
        for each in self._snapshots():
            if each.id.startswith(start):
                return each
        raise Incomplete(f"the snapshot {start} is not in {self.shown}")

    def backups(self) -> list[Backup]:
        try:
            found = _pairs(self._snapshots())
        except NoRepository:
            return []
        listed = [self._described(pair.mark) for pair in found.values()]
        return judged(listed, encrypts=False, verifies=self.signatures is not None)

    def _described(self, mark: _Snapshot) -> Backup:
        name = mark.tags["backup"]
        about: dict[str, Any] = {"agent": str(self.agent), **{key: mark.tags.get(key) for key in _WORDS}}
        about |= {key: _number(mark.tags.get(key)) for key in _NUMBERS}
        made = cast(datetime, time_of(name))
        return Backup(name, made, about["size"], about, texts_in=mark.id, signed=_SIGNED in mark.tags)

    def _pair(self, backup: Backup) -> _Pair:
        found = _pairs(self._snapshots()).get(backup.name)
        if found is None:
            raise PaddockError(f"the backup {backup.name} is not in {self.shown}")
        return found

    def read(self, backup: Backup) -> AbstractContextManager[IO[bytes]]:
        archive = self._pair(backup).archive
        return self._dumped(archive.id, archive.path)

    @contextmanager
    def _dumped(self, snapshot: str, path: str) -> Iterator[IO[bytes]]:
        with self.repository.piped("dump", snapshot, path) as restic:

            def read(size: int) -> bytes:
                data = restic.source.read(size)
                if not data:
                    self.repository.end(restic)  # a failure of restic becomes an error in words
                return data

            yield io.BufferedReader(Read(read), BLOCK)

    @contextmanager
    def _beside(self, backup: Backup) -> Iterator[IO[bytes]]:
        """Open the record beside a backup: its texts, and the signed statement."""
        # Each call of restic takes about a second, so a backup from a list is not looked for again.
        mark = backup.texts_in or self._pair(backup).mark.id
        # It is not valid JSON if Paddock was killed while it sent it. The archive is complete all the same.
        with self._dumped(mark, f"/{self.agent}.json") as stream:
            yield stream

    def texts(self, backup: Backup) -> Mapping[str, str] | None:
        with self._beside(backup) as stream:
            return from_json(stream, "texts", proof=backup.proof)

    def doubts(self, backup: Backup) -> Sequence[str]:
        return []  # nobody without the password can add anything to a repository

    def proven(self, backup: Backup) -> Backup:
        if self.signatures is None:
            return backup
        if not backup.signed:
            raise NotProven("it is not signed")
        with self._beside(backup) as stream:
            found = within(stream)
        said, signature = (found.get(key) if isinstance(found, dict) else None for key in ("said", "signature"))
        if not isinstance(said, str) or not isinstance(signature, str) or len(signature) > LONGEST_SIGNATURE:
            raise NotProven("its signature is missing")
        content = said.encode(errors="replace")
        return proof_of(backup, content, self.signatures.signer(content, signature.encode(), backup.made))

    def signer(self, backup: Backup) -> str:
        return "not checked" if backup.signed else "none"  # restic would take about a second for each

    def note_drill(self, drill: Drill) -> None:
        self.repository.output(*self._saving(f"{self.agent}.drill.json", [_DRILL]), stdin=drill.as_json())

    def last_drill(self) -> Drill | None:
        try:
            found = _drills(self._snapshots())
        except NoRepository:
            return None
        if not found:
            return None
        with self._dumped(found[-1].id, found[-1].path) as stream:
            return Drill.from_json(bounded.at_most(stream, LONGEST_DRILL, "the record of the drill"))

    def remove(self, backups: Sequence[Backup]) -> None:
        snapshots = self._snapshots()
        pairs = _pairs(snapshots)
        complete = {each.id for pair in pairs.values() for each in (pair.archive, pair.mark)}
        complete |= {each.id for each in _drills(snapshots)[-1:]}
        now = clock.now()
        unfinished = [each.id for each in snapshots if each.id not in complete and now - each.time > UNFINISHED]
        removed = [pairs[each.name] for each in backups if each.name in pairs]
        ids = [*(each.id for pair in removed for each in (pair.mark, pair.archive)), *unfinished]
        # Also without a snapshot to forget: an interrupted backup leaves data that no snapshot needs.
        self.repository.output(*(["forget", "--prune", *ids] if ids else ["prune"]))


def _pairs(snapshots: Sequence[_Snapshot]) -> dict[str, _Pair]:
    """Return the complete backups by name."""
    archives = {each.original: each for each in snapshots if each.original} | {each.id: each for each in snapshots}
    found = {}
    for mark in snapshots:
        name = mark.tags.get("backup", "")
        archive = archives.get(mark.tags.get("of", ""))
        if _COMPLETE in mark.tags and archive is not None and time_of(name) is not None:
            found[name] = _Pair(archive, mark)
    return found


def _drills(snapshots: Sequence[_Snapshot]) -> list[_Snapshot]:
    """Return the records of drills, the oldest first."""
    return sorted((each for each in snapshots if _DRILL in each.tags), key=lambda each: each.time)


def _tags(about: Json) -> list[str]:
    """Return the tags of a backup, which a list shows."""
    found = {key: str(about.get(key) or "") for key in (*_NUMBERS, *_WORDS)}
    return [f"{key}={value}" for key, value in found.items() if _SHORT.fullmatch(value)]


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() else 0


def _manifest_in(end: bytes) -> Json | None:
    """Return the manifest if the end of a stream contains all of it.

    A manifest is JSON in ASCII and contains no zero, so the last name with a zero after it is in the manifest's header.
    """
    at = end.rfind(f"{MANIFEST}\0".encode())
    if at < 0:
        return None
    try:
        with tarfile.open(fileobj=io.BytesIO(end[at:])) as tar:
            header = tar.next()
            content = tar.extractfile(header) if header else None
            return parse_manifest(content.read() if content else b"")  # no longer than the end that was read
    except (tarfile.TarError, BadStream):
        raise Incomplete("the manifest in the repository is damaged") from None
