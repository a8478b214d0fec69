"""Read and write files that only their owner may read."""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
from pathlib import Path

from paddock.errors import BadInput


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
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
