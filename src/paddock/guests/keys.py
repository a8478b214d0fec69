"""Making an ssh key for a person who has none."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from paddock import process
from paddock.errors import BadInput, PaddockError
from paddock.process import CommandFailed

_COMMENT: Final = "paddock"


def make_key(path: Path) -> None:
    """Make an ed25519 key without a passphrase at a path, and its public key beside it. Nothing is overwritten."""
    public = path.with_name(f"{path.name}.pub")
    there = next((each for each in (path, public) if each.exists() or each.is_symlink()), None)
    if there is not None:
        raise BadInput(f"{there} exists already", hint="use that key, or choose another path")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PaddockError(f"cannot create {path.parent}: {error.strerror}") from None
    # Before it overwrites a file, ssh-keygen asks on its input, which is empty: it never does.
    made = process.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", _COMMENT, "-f", str(path.absolute())])
    if not made.ok:
        raise CommandFailed(f"making the ssh key {path}", made)
