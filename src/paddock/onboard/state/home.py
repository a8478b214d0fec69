"""Write the files of a state that a bundle names.

The agent is not trusted: while this runs, it can create links, folders and pipes wherever it may write. So its own
files are written with its rights. Root's files are in folders that are root's and sticky, from the top of the state
down: the agent can create entries there, and cannot replace those of others.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from contextlib import suppress

from paddock.onboard.agent import settings
from paddock.onboard.files import FILE, descended, entry, is_file, is_folder, lines, opened, remove, set_aside, write
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import Refusal
from paddock.onboard.state.child import as_agent
from paddock.onboard.state.owners import give, ids
from paddock.onboard.state.top import keeps_others_out, may_only_add, own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_HELD = 0o1770
_LOCKED = 0o444


@frozen
class Entry:
    """A line of the list in a bundle: what to do with a path below the home."""

    verb: str  # hold, lock, folder, plant, seed, secret-plant, secret-seed
    source: str  # the name of its content in the bundle, or of the secret
    path: str


def listed(bundle: str) -> list[Entry]:
    """Return the entries of the list of a bundle."""
    return [Entry(*line.split("\t", 2)) for line in lines(f"{bundle}/state/list")]


class Home:
    """The home of an agent, whose files are written."""

    def __init__(self, root: str, bundle: str, secret_files: str) -> None:
        self.root = root
        self.bundle = bundle
        self.secret_files = secret_files
        found = settings(bundle)
        self.state, self.path = found["STATE"], found["HOME_DIR"]
        self.owner = ids(found["OWNER"]) if found["OWNER"] else None  # None where Paddock and the agent are one user
        self.entries = listed(bundle)
        self.locks = [each.path for each in self.entries if each.verb == "lock"]

    def write(self) -> list[str]:
        """Write all files, and return what a person should know."""
        with opened(self.state) as top:
            self._hold(top, 0o750)  # the agent creates nothing in the top folder
            holds = [each.path for each in self.entries if each.verb == "hold"]
            if holds:
                self._make_and_hold(top, "home")
            else:
                with suppress(FileExistsError):
                    os.mkdir("home", 0o700, dir_fd=top)
            self._unlock_others(top)
            with descended(top, ["home"]) as home:
                if self.owner:
                    give(home, *self.owner, kept={*holds, *self.locks})
                for each in self.entries:
                    if each.verb == "lock":
                        self._lock(top, each)
                    elif each.verb == "hold" and each.path != ".":
                        self._held(top, each.path)
                return self._write_the_agents(home)

    # Root's own

    def _hold(self, folder: int, mode: int = _HELD) -> None:
        """Make a folder root's and sticky. The agent can create entries in it."""
        if self.owner:
            os.fchown(folder, 0, self.owner[1])
            os.fchmod(folder, mode)

    def _make_and_hold(self, folder: int, name: str) -> None:
        """Make a folder in a held one, and hold it. An entry that is no folder gets another name."""
        found = entry(name, folder)
        if found and not is_folder(found):
            set_aside(name, folder)
            found = None
        if not found:
            os.mkdir(name, 0o700, dir_fd=folder)
        if self.owner:
            # From here on the agent cannot replace the entry, so that it is the one that is opened.
            os.chown(name, 0, -1, dir_fd=folder, follow_symlinks=False)
        try:
            with descended(folder, [name]) as inside:
                self._hold(inside)
        except OSError:
            raise Refusal(f"{self.path}: {name} is not a directory") from None

    def _held(self, top: int, path: str) -> list[str]:
        """Hold a folder below the home and those above it; return its steps from the top of the state."""
        steps = ["home", *path.split("/")]
        for at, name in enumerate(steps):
            with descended(top, steps[:at]) as above:
                self._make_and_hold(above, name)
        return steps

    def _lock(self, top: int, wanted: Entry) -> None:
        *folders, name = wanted.path.split("/")
        with open(f"{self.bundle}/state/{wanted.source}", "rb") as source:
            content = source.read()
        with descended(top, ["home", *folders]) as folder:
            if self._is_locked(folder, name, content):
                return
            new = _written_beside(folder, name, content, _LOCKED)
            found = entry(name, folder)
            if found and (not is_file(found) or self._is_the_agents(found)):
                set_aside(name, folder)
            os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _is_the_agents(self, found: os.stat_result) -> bool:
        """Whether a file is the agent's own. Where Paddock and the agent are one user, only its mode tells."""
        return found.st_uid != 0 if self.owner else stat.S_IMODE(found.st_mode) != _LOCKED

    def _is_locked(self, folder: int, name: str, content: bytes) -> bool:
        """Whether a locked file is as an earlier run wrote it. One with a second name can be changed by that name."""
        found = entry(name, folder)
        if found is None or not is_file(found) or self._is_the_agents(found) or _left_beside(folder, name):
            return False
        return (stat.S_IMODE(found.st_mode), found.st_nlink) == (_LOCKED, 1) and _has(folder, name, content)

    def _unlock_others(self, top: int) -> None:
        """Delete files that are no longer locked: they were never the agent's.

        The state records them, because a machine does not last. Their folders are held first, because the state may
        have been on another machine meanwhile. Those that need not be held are given back to the agent.
        """
        record = f"{own(self.state)}/locked"
        for path in lines(record):
            if any(part in ("", ".", "..") for part in path.split("/")):
                raise Refusal(f"{record} names {path}, which is not a path below the home; remove that line")
            if path not in self.locks:
                *folders, name = path.split("/")
                self._make_and_hold(top, "home")
                steps = self._held(top, "/".join(folders)) if folders else ["home"]
                with descended(top, steps) as folder, suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
        write(record, "".join(f"{path}\n" for path in self.locks))

    # The agent's own

    def _write_the_agents(self, home: int) -> list[str]:
        """Write the agent's own files with its rights, and record how those are that the file overwrites."""
        plants = [each for each in self.entries if each.verb == "secret-plant"]
        if any(not is_as_written(self.root, home, each.path) for each in plants):
            write(f"{self.root}/pending", "")  # the agent has read the file that is replaced, so it is restarted
        work = self._work()
        done = as_agent(self.owner, lambda: _agents_part(home, work), home)
        for path, why in done["failed"]:
            self._make_outside(path, why)
        write(f"{self.root}/overwritten", "".join(f"{_condition(home, each.path)}\t{each.path}\n" for each in plants))
        for each in self.entries:
            if each.verb == "secret-seed":
                remove(f"{self.secret_files}/{each.source}")
        return [
            f"{path} has the agent's own text, which is kept; the text of the file was written once"
            for path in done["kept"]
        ]

    def _work(self) -> list[tuple[str, str, bytes]]:
        """Return what is done with the agent's rights: verb, path, and content."""
        new = {each.path for each in self.entries}
        work = [
            ("remove", each.path, _content(f"{self.root}/current/state/{each.source}"))
            for each in listed(f"{self.root}/current")
            if each.verb == "plant" and each.path not in new
        ]
        for each in self.entries:
            if each.verb == "secret-seed" and not os.path.exists(f"{self.secret_files}/{each.source}"):
                continue  # it was written once, and is the agent's since then
            if each.verb not in ("hold", "lock"):
                secret = each.verb.startswith("secret-")
                folder = self.secret_files if secret else f"{self.bundle}/state"
                work.append(
                    (each.verb, each.path, b"" if each.verb == "folder" else _content(f"{folder}/{each.source}"))
                )
        return work

    def _make_outside(self, path: str, why: str) -> None:
        """Make a folder that is not in the state, which the agent itself may not make, and give it to the agent."""
        if self.owner is None or not path.startswith("/") or os.path.lexists(path):
            raise Refusal(why)
        below, above = path, os.path.dirname(path)
        while above != "/":
            found = entry(above)
            if found and not keeps_others_out(found):
                inside = entry(below)
                if not may_only_add(found) or inside is None or inside.st_uid != 0:
                    raise Refusal(
                        f"{path} cannot be made for the agent, because others can write to {above}: make it, and give"
                        f" it to uid {self.owner[0]}"
                    )
            below, above = above, os.path.dirname(above)
        before = os.umask(0o022)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkdir(path)
        os.umask(before)
        os.chown(path, *self.owner, follow_symlinks=False)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _agents_part(home: int, work: Sequence[tuple[str, str, bytes]]) -> dict[str, Any]:
    """Write the agent's files. Runs with its rights, so that paths may lead wherever it likes."""
    os.fchdir(home)
    os.umask(0o077)
    kept, failed = [], []
    for verb, path, content in work:
        if verb == "folder":
            try:
                os.makedirs(path, exist_ok=True)
            except OSError as error:
                failed.append((path, f"{path}: {error.strerror}"))
        elif verb == "remove":
            if _has(None, path, content):
                os.unlink(path)
        elif verb in ("plant", "secret-plant") or not os.path.lexists(path):
            _write(path, content)
        elif verb == "seed" and not _has(None, path, content):
            kept.append(path)
    return {"kept": kept, "failed": failed}


def _write(path: str, content: bytes) -> None:
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    new = _written_beside(None, path, content, 0o600)
    found = entry(path)
    if found and not is_file(found):
        set_aside(path)
    os.rename(new, path)


def _left_beside(folder: int | None, path: str) -> list[str]:
    """Return what killed runs have begun to write beside a file, perhaps with a secret in it."""
    above, _, name = path.rpartition("/")
    try:
        beside = os.listdir(folder if folder is not None else above or ".")
    except OSError:
        return []
    begun = f"{name}.paddock-"
    prefix = f"{above}/" if above else ""
    return [f"{prefix}{each}" for each in beside if each.startswith(begun) and len(each) == len(begun) + 6]


def _written_beside(folder: int | None, path: str, content: bytes, mode: int) -> str:
    """Write a file beside another one, so that neither is ever incomplete; return its name."""
    for left in _left_beside(folder, path):
        with suppress(OSError):
            os.unlink(left, dir_fd=folder)
    new = f"{path}.paddock-{secrets.token_hex(3)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(new, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
        file.flush()
        os.fsync(file.fileno())
    return new


def _has(folder: int | None, path: str, content: bytes) -> bool:
    """Whether a regular file has exactly this content."""
    try:
        with opened(path, FILE, folder) as file:
            if not stat.S_ISREG(os.fstat(file).st_mode) or os.fstat(file).st_size != len(content):
                return False
            with open(file, "rb", closefd=False) as read:
                return read.read(len(content) + 1) == content
    except OSError:
        return False


# The file ROOT/overwritten has a line for each file of the agent that the file of Paddock overwrites: its inode, size
# and time of change, a tab, and its path below the home. They are compared instead of the contents: root reads no file
# of the agent.


def is_as_written(root: str, home: int, path: str) -> bool:
    """Whether a file that Paddock overwrites is as Paddock wrote it."""
    return f"{_condition(home, path)}\t{path}" in lines(f"{root}/overwritten")


def changed_since_written(root: str, home_path: str) -> Iterator[str]:
    """Yield the files that Paddock overwrites, and that are not as Paddock wrote them."""
    known = lines(f"{root}/overwritten")
    if known:
        try:
            with opened(home_path) as home:
                for line in known:
                    condition, _, path = line.partition("\t")
                    if _condition(home, path) != condition:
                        yield path
        except OSError:
            yield from (line.partition("\t")[2] for line in known)


def _condition(home: int, path: str) -> str:
    *folders, name = path.split("/")
    try:
        with descended(home, folders) as folder:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return "missing"
    seconds, rest = divmod(found.st_ctime_ns, 10**9)
    at = time.localtime(seconds)
    return (
        f"{found.st_ino} {found.st_size} {time.strftime('%Y-%m-%d %H:%M:%S', at)}.{rest:09} {time.strftime('%z', at)}"
    )
