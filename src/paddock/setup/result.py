"""The files of a conversation: checked before anything is written, and written together."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from paddock.errors import BadInput
from paddock.recipes import KINDS
from paddock.setup.answers import Answers
from paddock.setup.files import NewFile, exists, write_together
from paddock.setup.render import render
from paddock.spec import checking
from paddock.spec.starter import SCHEMA_FILE, ignoring_secrets, schema_text


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
        checking.checked([file], (), KINDS)
