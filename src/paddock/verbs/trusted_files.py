"""The files of root's scheduled run, and the accounts that can change a part of their paths."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import shutil
import stat
import struct
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import paddock
from paddock.base import process
from paddock.base.errors import Refused
from paddock.base.frozen import frozen
from paddock.base.text import one_line, visible
from paddock.file.commands import commands
from paddock.file.load import Loaded
from paddock.file.models.backup import ToSpec
from paddock.file.models.whole import Spec
from paddock.file.referenced import parts
from paddock.file.secrets.files import VARIABLE, own_identity_path
from paddock.kinds.packaged import LOCKS

_MOST_LINKS: Final = 40  # as the kernel
# Fields and tags of an ACL, from linux/posix_acl_xattr.h.
_ACL: Final = "system.posix_acl_access"
_ENTRY: Final = struct.Struct("<HHI")
_USER, _GROUP_OBJ, _GROUP, _WRITE = 0x02, 0x04, 0x08, 0x02


@frozen
class WeakPath:
    """A file or folder that another account can change, and so everything that is read through it."""

    path: str
    why: str
    owner: int | None  # the account that it belongs to, if that is the reason


def weak_path(path: Path, trusted: Collection[int]) -> WeakPath | None:
    """Return the first part of a path that another account than the trusted ones can change; None if there is none.

    The parts are looked at from the root down, with links resolved. An account that cannot change one part cannot
    replace the next one either. So the answer None stays true while files are read, unless root changes that.
    """
    try:
        return _walked(path, trusted)
    except OSError as error:  # root may not look into the folder of a network filesystem
        return WeakPath(str(path), f"cannot be examined: {error.strerror}", None)


def _walked(path: Path, trusted: Collection[int]) -> WeakPath | None:
    steps = [part for part in reversed(path.absolute().parts) if part != "/"]
    at, links = Path("/"), 0
    while steps:
        if weak := _weak(at, trusted, last=False):
            return weak
        name = steps.pop()
        above, at = at, at.parent if name == ".." else at / name
        try:
            found = at.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return _weak(above, trusted, last=True)  # whoever can write there can create it
        if not stat.S_ISLNK(found.st_mode):
            continue
        links += 1
        if found.st_uid not in trusted:
            return WeakPath(str(at), f"belongs to {_account(found.st_uid)}", found.st_uid)
        if links > _MOST_LINKS:
            return WeakPath(str(at), "has too many links", None)
        target = at.readlink()
        at = Path("/") if target.is_absolute() else above
        steps += [part for part in reversed(target.parts) if part != "/"]
    return _weak(at, trusted, last=True)


def _weak(path: Path, trusted: Collection[int], *, last: bool) -> WeakPath | None:
    """Return a file or folder, if others can change it. In a sticky folder they can replace only their own files."""
    found = path.lstat()
    if found.st_uid not in trusted:
        return WeakPath(str(path), f"belongs to {_account(found.st_uid)}", found.st_uid)
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX and not last:
        return None
    who = _others_who_write(path, found, trusted)
    return WeakPath(str(path), f"may be written by {who}", None) if who else None


def _others_who_write(path: Path, found: os.stat_result, trusted: Collection[int]) -> str:
    """Return who else may write, in words; empty if nobody may."""
    if found.st_mode & stat.S_IWOTH:
        return "every account"
    if not found.st_mode & stat.S_IWGRP:
        return ""  # with an ACL, these bits are its mask: nobody that it names may write
    users, groups = _named_in_acl(path) or ((), (found.st_gid,))
    for uid in users:
        if uid not in trusted:
            return _account(uid)
    for gid in groups:
        members = _members(gid)
        if members is None or not members <= set(trusted):
            with suppress(KeyError):
                return f"the group {grp.getgrgid(gid).gr_name}"
            return f"the group {gid}"
    return ""


def _named_in_acl(path: Path) -> tuple[Collection[int], Collection[int]] | None:
    """Return the accounts and the groups that an ACL lets write; None if there is no ACL."""
    try:
        entries = list(_ENTRY.iter_unpack(os.getxattr(path, _ACL)[4:]))
    except (OSError, AttributeError, struct.error):  # no ACL, or a system or a filesystem without any
        return None
    own = path.stat().st_gid
    writers = [(tag, own if tag == _GROUP_OBJ else number) for tag, allowed, number in entries if allowed & _WRITE]
    users = [number for tag, number in writers if tag == _USER]
    return users, [number for tag, number in writers if tag in (_GROUP_OBJ, _GROUP)]


def _members(gid: int) -> set[int] | None:
    """Return the accounts in a group; None if nobody knows it."""
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return None
    return {*_numbers(group.gr_mem), *(each.pw_uid for each in pwd.getpwall() if each.pw_gid == gid)}


def _numbers(names: Collection[str]) -> Iterator[int]:
    for name in names:
        with suppress(KeyError):
            yield pwd.getpwnam(name).pw_uid


def _account(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return f"the account {uid}"


_MOST_SHOWN: Final = 5
_NOBODY: Final = 65534  # also what accounts are shown as that a user namespace does not know


@frozen
class Changeable:
    """The files of a scheduled run of root that other accounts can change."""

    weak: Sequence[WeakPath]
    owner: int | None  # the one account that can change it, if no other one can
    program: bool  # whether Paddock itself is among it

    @classmethod
    def of(cls, paths: Sequence[Path], program: Sequence[Path] = ()) -> Self:
        """Look at every part of these paths."""
        both = {path: weak_path(path, {0}) for path in dict.fromkeys([*program, *paths])}
        weak = [each for each in both.values() if each]
        owners = {each.owner for each in weak}
        owner = owners.pop() if len(owners) == 1 else None
        if owner is not None:
            # Nor may a third account change what would run as the owner.
            others = [each for path in both if (each := weak_path(path, {0, owner}))]
            weak, owner = [*weak, *others], None if others or owner == _NOBODY else owner
        return cls(weak, owner, any(both[path] for path in program))

    @property
    def reasons(self) -> list[str]:
        """One line for each weak part."""
        lines = [one_line(f"{path} {why}") for path, why in {weak.path: weak.why for weak in self.weak}.items()]
        more = len(lines) - _MOST_SHOWN
        return [*lines[:_MOST_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def of_files(files: Sequence[Path]) -> Changeable:
    """Return which parts of Paddock and of the files others can change, before the files are read."""
    program = [Path(sys.executable), Path(sys.prefix, "pyvenv.cfg"), Path(paddock.__file__).parent]
    program += [Path(each) for each in sys.path if each]
    return Changeable.of([*files, files[0].absolute().parent], program)


def of_loaded(loaded: Loaded, environment: Path) -> Changeable:
    """Return which files that the file names, and which of the account's own secrets, others can change."""
    return Changeable.of([environment, *_identities(), *_named(loaded)])


def _identities() -> Iterator[Path]:
    yield own_identity_path()
    given = os.environ.get(VARIABLE, "").strip()
    if given and not given.startswith("AGE-SECRET-KEY-"):
        yield Path(given).expanduser()


def _named(loaded: Loaded) -> Iterator[Path]:
    """Yield every path of this computer that the file names for a scheduled run.

    A folder of backups is not among them: it is only written, with care of its own.
    """
    scheduled = list(_parts(loaded.spec))
    written = {id(to.folder) for _, to in parts(scheduled, (), (ToSpec,)) if isinstance(to, ToSpec)}
    for _, path in parts(scheduled, (), (Path,)):
        if isinstance(path, Path) and id(path) not in written:
            yield loaded.folder / path.expanduser()
            yield loaded.folder / f"{path.expanduser()}.pub"  # beside an ssh key
    yield loaded.folder / LOCKS
    for command in commands(loaded.spec):
        yield from _of_command(command.argv, loaded.folder)


def _parts(spec: Spec) -> Iterator[object]:
    """Yield the parts of the file that a scheduled run uses."""
    names = [name for name, agent in spec.agents.items() if agent.backup is not None]
    names += [behind for name in names if (behind := spec.agents[name].model_gateway)]
    for name in dict.fromkeys(names):
        yield spec.agents[name]
        yield spec.places[spec.agents[name].place]


def _of_command(argv: Sequence[str], folder: Path) -> Iterator[Path]:
    """Yield the program, and each argument that is a path: of `python3 tool.py` it is the argument that counts."""
    if argv and "/" not in argv[0]:
        program = shutil.which(argv[0])
        yield from [Path(program)] if program else []
    for word in argv:
        with suppress(OSError, ValueError, RuntimeError):  # too long for a name, or a home of nobody
            path = folder / Path(word).expanduser()
            if os.path.lexists(path):
                yield path


def refusal(found: Changeable, files: Sequence[Path]) -> Refused:
    """Return the error that a timer of root will not run this, with the ways that remain."""
    folder = files[0].absolute().parent
    named = " ".join(f"--file {shlex.quote(str(file.absolute()))}" for file in files)
    name = _name(found.owner)
    ways = [f"let {name} have the timer: loginctl enable-linger {name}; sudo -iu {name} paddock schedule {named}"]
    if found.program:
        ways.append("or install Paddock where only root can write, with `uv tool install` as root")
    copy = shlex.quote(f"/root/{folder.name}")
    ways += [
        "or make a copy that only root can write, read it, and schedule that:",
        f"  cp -RL --no-preserve=all {shlex.quote(str(folder))} {copy} && chmod -R go= {copy}",
    ]
    ways = ways if name else [way.removeprefix("or ") for way in ways[1:]]
    lines = "\n".join(f"  {line}" for line in found.reasons)
    return Refused(f"other accounts can change what root's timer would run:\n{lines}", hint="\n".join(ways))


def run_as_owner(found: Changeable, files: Sequence[Path], sets: Sequence[str]) -> int | None:
    """Run the schedule as the account that everything weak belongs to; None if that is not possible.

    It gets nothing of root's: no variable, no terminal, no open file. Its output is hostile.
    """
    uid, name = found.owner, _name(found.owner)
    if uid is None or name is None or not shutil.which("setpriv"):
        return None
    print(f"running as {name}, because other accounts can change what root would run:", file=sys.stderr)
    for line in found.reasons:
        print(f"  {line}", file=sys.stderr)
    words = [word for file in files for word in ("--file", str(file.absolute()))]
    words += [word for each in sets for word in ("--set", each)]
    account = pwd.getpwuid(uid)
    identity = [f"--reuid={uid}", f"--regid={account.pw_gid}", "--init-groups", "--inh-caps=-all"]
    runtime = Path(f"/run/user/{uid}")  # the way to the systemd of the account, if that runs
    known = [f"XDG_RUNTIME_DIR={runtime}"] if runtime.is_dir() else []
    drop = ["setpriv", *identity, "--reset-env", "--", "env", *known]
    argv = [*drop, sys.executable, "-P", "-m", "paddock", "schedule", "run", *words]
    return process.stream(
        argv,
        lambda line: print(visible(line), flush=True),
        lambda line: print(visible(line), file=sys.stderr, flush=True),
        own_session=True,
    )


def _name(uid: int | None) -> str | None:
    try:
        return None if uid is None else pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
