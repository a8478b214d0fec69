"""The ssh key with which Paddock logs in to machines: the person's own, or a new one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from paddock import process
from paddock.errors import BadInput
from paddock.frozen import frozen
from paddock.guests.keys import make_key
from paddock.setup.files import PRIVATE, NewFile
from paddock.setup.questions import Conversation, Question

_USUAL: Final = "~/.ssh/id_ed25519"
_OWN: Final = "~/.ssh/paddock_ed25519"
_NEW: Final = "new"


@frozen
class SshKey:
    """The path of a private key as the file names it, and the files to write if the key is new."""

    path: str
    files: Sequence[NewFile] = ()


def choose_key(talk: Conversation) -> SshKey:
    """Return a key that needs no passphrase. An existing one is told, and a new one is offered."""
    question = Question("--ssh-key", "Ssh key", "Path of an ssh key without a passphrase, or `new` to make one", _NEW)
    if question.flag not in talk.given:
        for path in (_USUAL, _OWN):
            if not _file(path).exists():
                continue
            try:
                usable(path)
            except BadInput as error:
                talk.say(f"{error.message[0].upper()}{error.message[1:]}.")
                continue
            talk.tell(f"Ssh key: {path} ({question.flag} chooses another)")
            return SshKey(path)
        talk.say(f"There is no ssh key that Paddock can use. A new one would be {_OWN}.")
    return talk.ask(question, lambda answer: new_key(_OWN) if answer == _NEW else SshKey(usable(answer)))


def found_keys() -> list[str]:
    """Return the usual keys that exist and need no passphrase."""
    found = []
    for path in (_USUAL, _OWN):
        with suppress(BadInput):
            found.append(usable(path))
    return found


def usable(path: str) -> str:
    """Return the path of a private key; raise an error if ssh could not use it without a question."""
    private = _file(path)
    if not private.is_file():
        raise BadInput(f"there is no ssh key {path}")
    if not Path(f"{private}.pub").is_file():
        raise BadInput(f"{path} has no public key {path}.pub beside it", hint=f"ssh-keygen -y -f {path} > {path}.pub")
    if not process.run(["ssh-keygen", "-y", "-P", "", "-f", str(private)]).ok:
        raise BadInput(f"the ssh key {path} has a passphrase, or is no private key", hint="choose another, or `new`")
    return path


def new_key(path: str) -> SshKey:
    """Make a key, and return its files. They are written with all other files."""
    place = _file(path)
    if place.exists():
        return SshKey(usable(path))
    with tempfile.TemporaryDirectory(prefix="paddock-") as folder:
        made = Path(folder) / "key"
        make_key(made)
        private, public = made.read_bytes(), Path(f"{made}.pub").read_bytes()
    files = [
        NewFile(place, private, "a new ssh key for the machines", PRIVATE),
        NewFile(Path(f"{place}.pub"), public, "its public key"),
    ]
    return SshKey(path, files)


def _file(path: str) -> Path:
    return Path(path).expanduser()
