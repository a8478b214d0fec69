"""The files of a conversation: checked before anything is written, and written together, all or none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from paddock.base.errors import BadInput
from paddock.base.frozen import frozen
from paddock.file import check
from paddock.file.schema import SCHEMA_FILE, ignoring_secrets, schema_text
from paddock.kinds import KINDS
from paddock.setup.answers import Answers
from paddock.setup.render import render

PRIVATE: Final = 0o600
READABLE: Final = 0o644


@frozen
class NewFile:
    """A file to write. It may take the place of an existing file only if it says so."""

    path: Path
    content: bytes
    about: str
    mode: int = READABLE
    replaces: bool = False


def write_together(files: Sequence[NewFile]) -> None:
    """Write the files. If one of them cannot be written, the others are restored.

    The contents are first written beside their places, so that a full disk or a missing permission is noticed early.
    """
    with _prepared(files) as prepared:
        done: list[tuple[Path, bytes | None]] = []
        current = files[0].path
        try:
            for file, waiting in zip(files, prepared, strict=True):
                current = file.path
                before = current.read_bytes() if file.replaces and current.exists() else None
                if file.replaces:
                    waiting.replace(current)
                else:
                    os.link(waiting, current)  # fails if the file exists
                done.append((current, before))
        except BaseException as error:
            for path, content in reversed(done):
                _restore(path, content)
            if isinstance(error, FileExistsError):
                raise exists(current) from None
            if isinstance(error, OSError):
                raise _cannot_write(current, error) from None
            raise


def exists(path: Path) -> BadInput:
    return BadInput(f"{path} exists already", hint="name another folder, or move the file away")


@contextmanager
def _prepared(files: Sequence[NewFile]) -> Iterator[list[Path]]:
    """Write each content to a temporary file in the folder of its file. Folders that were made stay only if used."""
    made: list[Path] = []
    waiting: list[Path] = []
    try:
        for file in files:
            try:
                made += _make_folder(file.path.parent, private=file.mode == PRIVATE)
                waiting.append(_temporary(file))
            except OSError as error:
                raise _cannot_write(file.path, error) from None
        yield waiting
    finally:
        for path in waiting:
            path.unlink(missing_ok=True)
        for folder in reversed(made):
            with suppress(OSError):  # it has files now
                folder.rmdir()


def _temporary(file: NewFile) -> Path:
    descriptor, name = tempfile.mkstemp(dir=file.path.parent, prefix=f".{file.path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(file.content)
            os.fchmod(opened.fileno(), file.mode)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _make_folder(folder: Path, *, private: bool) -> list[Path]:
    """Create a folder with its parents, and return those that did not exist, the topmost first."""
    absent = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(absent):
        each.mkdir(mode=0o700 if private else 0o777)
    return absent[::-1]


def _restore(path: Path, content: bytes | None) -> None:
    with suppress(OSError):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)


def _cannot_write(path: Path, error: OSError) -> BadInput:
    return BadInput(f"cannot write {path}: {error.strerror}", hint="nothing was written")


def refuse_existing(folder: Path) -> Path:
    """Return the path of the file to write; raise an error if it exists, or if the folder cannot be written to."""
    target = folder / "paddock.yaml"
    if target.exists():
        raise exists(target)
    nearest = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise BadInput(f"cannot write to {nearest}", hint="name another folder")
    return target


def write_result(folder: Path, answers: Answers, others: Sequence[NewFile]) -> list[str]:
    """Write paddock.yaml and the files beside it, and return a line about each."""
    target = refuse_existing(folder)
    text = render(answers)
    _check(text, [file for file in others if file.path.parent == folder])
    files = [NewFile(folder / SCHEMA_FILE, schema_text(KINDS).encode(), "for editors", replaces=True)]
    ignore = ignoring_secrets(folder / ".gitignore")
    if ignore is not None:
        files.append(NewFile(folder / ".gitignore", ignore.encode(), "keeps secrets out of git", replaces=True))
    # The file is the last one: if it is there, everything that it names is there too.
    files += [*others, NewFile(target, text.encode(), "what runs, and where")]
    write_together(files)
    return [f"{_shown(file.path)}: {file.about}" for file in (files[-1], *files[:-1])]


def _shown(path: Path) -> str:
    """Return a path as people write it, with ~ for their home."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_absolute() and path.is_relative_to(home) else str(path)


def _check(text: str, beside: Sequence[NewFile]) -> None:
    """Check the file and the files beside it in another folder. A mistake is one of Paddock, or of a strange name."""
    with tempfile.TemporaryDirectory(prefix="paddock-") as folder:
        for other in beside:
            (Path(folder) / other.path.name).write_bytes(other.content)
        file = Path(folder) / "paddock.yaml"
        file.write_text(text, encoding="utf-8")
        check.checked([file], (), KINDS)
