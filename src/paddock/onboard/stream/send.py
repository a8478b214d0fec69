"""Write the state of an agent as a stream.

In an order, `home` is the folder to send, `staging` a folder for copies of databases, `about` goes into the
manifest; `rebuilt`, `databases` and `growing` are patterns for paths. With `only`, nothing else is sent. With
`examine`, SQLite checks each database, and the manifest names the damaged ones. The agent may run meanwhile, and may
change anything while it is read.

A folder that was not made by Paddock has more words: `under` is the folder of the state that it becomes, `owner` is
the name of the owner of all files. `stopped` says that nobody writes to it: SQLite then gets copies of the databases,
so that nothing is created or changed there, and a file that changes meanwhile is an error.
"""

from __future__ import annotations

import functools
import grp
import io
import json
import os
import pwd
import signal
import stat
import sys
import tarfile
import time
from contextlib import suppress

from paddock.onboard.files import FILE, FOLDER, descended, open_quietly, opened
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import FAILED, Refusal
from paddock.onboard.program.serve import output
from paddock.onboard.stream.database import (
    CannotCopy,
    DatabaseOrder,
    copied_database,
    copied_files,
    is_database,
    remove_left,
    staged,
)
from paddock.onboard.stream.files import Exactly, Pieces, data_pieces
from paddock.onboard.stream.layout import (
    BLOCK,
    DEEPEST,
    FILLER,
    FORMAT,
    FORMAT_WITH_HOLES,
    HOLES,
    LONGEST_REPORTED,
    MANIFEST,
    MOST_ENTRIES,
    MOST_REPORTED,
    PASSES,
    PREFIX,
    Json,
    announcement,
    dense,
    listed_pieces,
    matcher,
    stays_inside,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paddock.onboard.program.serve import Payload

SECONDS = 6 * 3600  # for a state: the agent decides how large it is
MOST_PIECES = 10_000  # between the holes of a file
MOST_FILLED = 1 << 30  # bytes of holes that are sent as zeros
BESIDE = ("-wal", "-shm", "-journal")  # files that belong to a database and are part of its copy


class Sender:
    """Sends one state."""

    def __init__(self, order: Json, out: io.RawIOBase) -> None:
        self.home = order["home"]
        self.staging = order["staging"]
        self.about = order["about"]
        self.rebuilt = matcher(order["rebuilt"])
        self.databases = matcher(order["databases"])
        self.growing = matcher(order["growing"])
        self.only = matcher(order["only"]) if "only" in order else None
        self.examine = order.get("examine", False)
        self.under = order.get("under", "")
        self.prefix = f"{self.under}/" if self.under else ""
        self.owner = order.get("owner")
        self.stopped = order.get("stopped", False)
        self.format = FORMAT
        self.entries: dict[str, Json] = {}
        self.left_out: list[Json] = []
        self.as_files: list[Json] = []
        self.damaged: list[Json] = []
        self.again: list[str] = []
        self.sizes: list[tuple[int, str]] = []  # and paths of files that may be databases
        self.schemas: dict[str, int] = {}  # of the databases that were sent
        self.out = io.BufferedWriter(out, BLOCK)

    def send(self) -> None:
        """Send all files, those that changed meanwhile again, and the manifest."""
        remove_left(self.staging)
        with opened(self.home) as home:
            found = os.fstat(home)
            self.device, self.user = found.st_dev, self.owner or user_name(found.st_uid)
            print(announcement(self._measured(home, self.prefix, 1)), file=sys.stderr, flush=True)
            if self.under:
                self._folder_entry(home, self.under)
            # The largest first: behind a database that has grown, restic stores all others again.
            for _, path in sorted(self.sizes, key=lambda each: (-each[0], each[1])):
                self._database_in(home, path)
            self._folder(home, self.prefix, 1)
            if self.again and self.stopped:
                raise Refusal(f"a file changed while it was read: {self.again[0]!r}", FAILED)
            for _ in range(PASSES):
                if not self.again:
                    break
                time.sleep(0.2)
                changed, self.again = self.again, []
                for path in changed:
                    self._once_more(home, path)
        for path in self.again:
            self.entries[path]["unstable"] = True
        self._manifest()
        self.out.write(bytes(tarfile.RECORDSIZE))  # a tar ends with zeros
        self.out.flush()

    def _measured(self, folder: int, path: str, depth: int) -> int:
        """Return about how many bytes will be sent of a folder, for a display, and note the sizes of its databases."""
        total = 0
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if self.rebuilt.fullmatch(path + entry.name):
                    continue
                found = entry.stat(follow_symlinks=False)
                total += tarfile.BLOCKSIZE
                if found.st_dev != self.device:
                    continue
                if stat.S_ISREG(found.st_mode):
                    total += min(found.st_size, found.st_blocks * 512)
                    if not self.only and self.databases.fullmatch(path + entry.name):
                        self.sizes.append((found.st_size, path + entry.name))
                elif stat.S_ISDIR(found.st_mode) and depth < DEEPEST:
                    with descended(folder, [entry.name]) as inside:
                        total += self._measured(inside, f"{path}{entry.name}/", depth + 1)
        return total

    def _folder(self, folder: int, path: str, depth: int) -> None:
        try:
            names = sorted(os.listdir(folder), key=os.fsencode)
        except OSError as error:
            self._leave_out(path, error.strerror or "it cannot be read")
            return
        copied = {name for name in names if path + name in self.schemas}
        copied |= {f"{name}{suffix}" for name in copied for suffix in BESIDE}
        for name in names:
            if name not in copied:
                self._entry(folder, name, path + name, depth)

    def _entry(self, folder: int, name: str, path: str, depth: int) -> None:
        if self.rebuilt.fullmatch(path):
            return
        with suppress(FileNotFoundError):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if found.st_dev != self.device:
                self._leave_out(path, "it is on another file system")
            elif path in self.entries and not stat.S_ISDIR(found.st_mode):
                self._leave_out(path, "it was a folder, and is something else now")
            elif stat.S_ISDIR(found.st_mode):
                self._subfolder(folder, name, path, depth)
            elif self.only and not self.only.fullmatch(path):
                return
            elif stat.S_ISLNK(found.st_mode):
                self._link(folder, name, path, found)
            elif not stat.S_ISREG(found.st_mode):
                self._leave_out(path, "it is neither a file, a folder nor a link")
            else:
                self._file(folder, name, path)

    def _subfolder(self, folder: int, name: str, path: str, depth: int) -> None:
        if depth >= DEEPEST:
            self._leave_out(path, f"it is more than {DEEPEST} folders deep")
            return
        try:
            inside = open_quietly(name, FOLDER, folder)
        except OSError as error:
            self._leave_out(path, error.strerror or "it cannot be read")
            return
        try:
            self._folder_entry(inside, path)
            self._folder(inside, f"{path}/", depth + 1)
        finally:
            os.close(inside)

    def _folder_entry(self, folder: int, path: str) -> None:
        if path not in self.entries:
            found = os.fstat(folder)
            self._put(self._header(path, found, tarfile.DIRTYPE))
            self._note(path, found, "folder")

    def _link(self, folder: int, name: str, path: str, found: os.stat_result) -> None:
        target = os.readlink(name, dir_fd=folder)
        if not stays_inside(path, target):
            self._leave_out(path, "the link leads out of the state")
            return
        header = self._header(path, found, tarfile.SYMTYPE)
        header.linkname = target
        self._put(header)
        self._note(path, found, "link", target=target)

    def _file(self, folder: int, name: str, path: str) -> None:
        try:
            file = open_quietly(name, FILE, folder)
        except FileNotFoundError:
            return
        except OSError as error:
            self._leave_out(path, error.strerror or "it cannot be read")
            return
        with os.fdopen(file, "rb", buffering=0) as opened_file:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                self._leave_out(path, "it is neither a file, a folder nor a link")
            elif not self._content(path, opened_file):
                self.again.append(path)

    def _content(self, path: str, file: io.FileIO) -> bool:
        """Send a file as long as it was when it was opened; return whether it did not change meanwhile."""
        before = os.fstat(file.fileno())
        source = Exactly(file, before.st_size)
        header = self._header(path, before, tarfile.REGTYPE)
        pieces = data_pieces(file.fileno(), before.st_size)
        holes: Json = {}
        if pieces and len(pieces) > MOST_PIECES:
            if before.st_size - before.st_blocks * 512 > MOST_FILLED:
                self._leave_out(path, "it has too many holes")
                return True
            pieces = None
        if pieces is None:
            header.size = before.st_size
            self._put(header, source)
        else:
            self._sparse(header, source, pieces, before.st_size)
            holes = {"holes": True}
            self.format = FORMAT_WITH_HOLES
        after = os.fstat(file.fileno())
        self._note(path, before, "file", size=before.st_size, sha256=source.digest(), **holes)
        same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        grew = self.growing.fullmatch(path) is not None and after.st_size >= before.st_size
        return not source.short and (same or grew)

    def _sparse(self, header: tarfile.TarInfo, source: Exactly, pieces: list[tuple[int, int]], size: int) -> None:
        """Send a file with holes in the format of GNU tar: a list of its pieces, then the pieces."""
        listed = listed_pieces([*pieces, (size, 0)])  # an empty piece at the end says how long the file is
        header.size = len(listed) + sum(length for _, length in pieces)
        sparse = {"major": "1", "minor": "0", "name": header.name, "realsize": str(size)}
        header.pax_headers = {**{f"GNU.sparse.{key}": value for key, value in sparse.items()}, HOLES: "not hashed"}
        self._put(header, Pieces(listed, source, pieces))

    def _database_in(self, home: int, path: str) -> None:
        """Send the folders of a database and a copy of it. If that fails, it is sent later, as a file."""
        *folders, name = path.removeprefix(self.prefix).split("/")
        # What cannot be opened is reported when its folder is sent.
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            for depth in range(len(folders)):
                with descended(home, folders[: depth + 1]) as folder:
                    self._folder_entry(folder, self.prefix + "/".join(folders[: depth + 1]))
            with descended(home, folders) as folder:
                if is_database(folder, name):
                    self._database(folder, name, path)

    def _database(self, folder: int, name: str, path: str) -> None:
        """Send a copy of a database, made by SQLite while the agent may write."""
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        try:
            with staged(self.staging, found.st_uid, found.st_gid) as room:
                file, schema, wrong = copied_database(self._order(folder, name, path, room, found), found)
                with os.fdopen(file, "rb", buffering=0) as copy:
                    header = self._header(path, found, tarfile.REGTYPE)
                    header.size = os.fstat(file).st_size
                    source = Exactly(copy, header.size)
                    self._put(header, source)
        except CannotCopy as error:
            # The file as it is, with the files beside it, is better than nothing.
            self._report(self.damaged if self.examine else self.as_files, path, str(error))
            return
        self._note(path, found, "file", size=header.size, sha256=source.digest(), database=True)
        self.schemas[path] = schema
        if wrong:
            self._report(self.damaged, path, wrong)

    def _order(self, folder: int, name: str, path: str, room: str, found: os.stat_result) -> DatabaseOrder:
        copy = f"{room}/copy.db"
        if self.stopped:
            return DatabaseOrder(copied_files(folder, name, room, found), copy, "rw", self.examine)
        return DatabaseOrder(f"{self.home}/{path}", copy, "ro", self.examine)

    def _once_more(self, home: int, path: str) -> None:
        """Send a file that changed while it was sent. If it was removed meanwhile, it is not part of the state."""
        del self.entries[path]
        *folders, name = path.split("/")
        with suppress(OSError), descended(home, folders) as folder:
            self._file(folder, name, path)

    def _put(self, header: tarfile.TarInfo, content: io.RawIOBase | io.BytesIO | None = None) -> None:
        """Write an entry. `tarfile` would keep all headers in memory, and copy the content once more."""
        self.out.write(dense(header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")))
        while content and (data := content.read(BLOCK)):
            self.out.write(data)
        self.out.write(FILLER * (-header.size % tarfile.BLOCKSIZE))

    def _header(self, path: str, found: os.stat_result, kind: bytes) -> tarfile.TarInfo:
        header = tarfile.TarInfo(PREFIX + path)
        header.type = kind
        header.mode = stat.S_IMODE(found.st_mode)
        header.mtime = int(found.st_mtime)
        header.uname, header.gname = self._owner(found)
        return header

    def _owner(self, found: os.stat_result) -> tuple[str, str]:
        return (self.owner, self.owner) if self.owner else (user_name(found.st_uid), group_name(found.st_gid))

    def _note(self, path: str, found: os.stat_result, kind: str, **more: Any) -> None:
        owner, group = self._owner(found)
        if len(self.entries) >= MOST_ENTRIES:
            raise Refusal(f"the state has more than {MOST_ENTRIES} files and folders", FAILED)
        self.entries[path] = {
            "path": path,
            "type": kind,
            "mode": f"{stat.S_IMODE(found.st_mode):o}",
            "owner": owner,
            "group": group,
            "mtime": int(found.st_mtime),
            **more,
        }

    def _leave_out(self, path: str, why: str) -> None:
        self._report(self.left_out, path, why)

    def _report(self, reported: list[Json], path: str, why: str) -> None:
        if len(reported) < MOST_REPORTED:
            reported.append({"path": path[:LONGEST_REPORTED], "why": why})
        else:
            reported[-1] = {"path": "…", "why": "there are more"}

    def _manifest(self) -> None:
        manifest = {
            "format": self.format,
            **self.about,
            "user": self.user,
            "from": os.uname().nodename,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "schemas": self.schemas,
            "left_out": self.left_out,
            "as_files": self.as_files,
            "damaged": self.damaged,
            "entries": [self.entries[path] for path in sorted(self.entries, key=os.fsencode)],
        }
        # A name that is not UTF-8 has surrogates, which only escapes can express.
        data = json.dumps(manifest, ensure_ascii=True, sort_keys=True).encode()
        header = tarfile.TarInfo(MANIFEST)
        header.size, header.mode, header.mtime = len(data), 0o600, int(time.time())
        self._put(header, io.BytesIO(data))


@functools.cache
def user_name(uid: int) -> str:
    """Return the name of a user, or `#` and the number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"


@functools.cache
def group_name(gid: int) -> str:
    """Return the name of a group, or `#` and the number if it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"#{gid}"


@frozen
class SendState:
    """Send a state."""

    order: dict[str, object]
    streams = True

    def perform(self, _: Payload) -> None:
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(SECONDS)
        try:
            Sender(self.order, io.FileIO(output().fileno(), "w", closefd=False)).send()
        finally:
            signal.alarm(0)


def _too_long(*_: object) -> None:
    raise Refusal(f"the state could not be sent within {SECONDS // 3600} hours", FAILED)
