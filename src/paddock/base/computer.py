"""The computer and the account that run Paddock: the operating system, the folder for state, and private files."""

from __future__ import annotations

import os
import shlex
import stat
import sys
import tempfile
from pathlib import Path
from typing import Final

from paddock.base import folders
from paddock.base.errors import BadInput

_NAMES: Final = {"darwin": "macOS"}


def require_linux(what: str, hint: str) -> None:
    """Fail with a message unless this computer runs Linux."""
    if sys.platform != "linux":
        raise BadInput(
            f"{what} needs Linux, and this computer runs {_NAMES.get(sys.platform, sys.platform)}", hint=hint
        )


def state_folder() -> Path:
    """Return Paddock's folder for local state, which may not exist yet."""
    return folders.state() / "paddock"


def read_private(path: Path) -> str:
    """Return the text of a secret file; raise an error if other accounts can read the file."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise BadInput(f"cannot read {path}: it is not a text in UTF-8") from None
    if stat.S_IMODE(mode) & 0o077:
        raise BadInput(f"{path} can be read by other accounts", hint=f"chmod 600 {shlex.quote(str(path))}")
    return text


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically, with permissions for its owner only."""
    try:
        folders.make_private(path.parent)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
