"""What root's scheduled run reads and starts, and the accounts that can change it."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import paddock
from paddock import process
from paddock.errors import Refused
from paddock.frozen import frozen
from paddock.recipes.packaged import LOCKS
from paddock.run.weak_path import WeakPath, weak_path
from paddock.spec.agefile import VARIABLE, own_identity_path
from paddock.spec.backup import ToSpec
from paddock.spec.commands import commands
from paddock.spec.files import parts
from paddock.spec.load import Loaded
from paddock.spec.models import Spec
from paddock.visible import one_line, visible

_MOST_SHOWN: Final = 5
_NOBODY: Final = 65534  # also what accounts are shown as that a user namespace does not know


@frozen
class Changeable:
    """What other accounts can change of what a scheduled run of root reads and starts."""

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
    """Return what others can change of Paddock itself and of the files, before these are read."""
    program = [Path(sys.executable), Path(sys.prefix, "pyvenv.cfg"), Path(paddock.__file__).parent]
    program += [Path(each) for each in sys.path if each]
    return Changeable.of([*files, files[0].absolute().parent], program)


def of_loaded(loaded: Loaded, environment: Path) -> Changeable:
    """Return what others can change of everything that the file names, and of the account's own secrets."""
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

    It gets nothing of root's: no variable, no terminal, no open file. What it prints is hostile.
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
