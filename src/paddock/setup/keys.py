"""The ssh key of Paddock, and the secrets of a conversation: in an age file, or named as environment variables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from paddock.base import process
from paddock.base.computer import read_private
from paddock.base.errors import BadInput
from paddock.base.frozen import frozen
from paddock.base.secret import Secret
from paddock.channels.ssh import make_key
from paddock.file.secrets import files as agefile
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
    """Return a key that needs no passphrase. An existing key is taken and printed; otherwise a new key is offered."""
    question = Question("--ssh-key", "Ssh key", "Path of an ssh key without a passphrase, or `new` to make one", _NEW)
    if question.flag not in talk.given:
        for path in (_USUAL, _OWN):
            if not Path(path).expanduser().exists():
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
    private = Path(path).expanduser()
    if not private.is_file():
        raise BadInput(f"there is no ssh key {path}")
    if not Path(f"{private}.pub").is_file():
        raise BadInput(f"{path} has no public key {path}.pub beside it", hint=f"ssh-keygen -y -f {path} > {path}.pub")
    if not process.run(["ssh-keygen", "-y", "-P", "", "-f", str(private)]).ok:
        raise BadInput(f"the ssh key {path} has a passphrase, or is no private key", hint="choose another, or `new`")
    return path


def new_key(path: str) -> SshKey:
    """Make a key, and return its files. They are written with all other files."""
    place = Path(path).expanduser()
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


STORE: Final = "secrets.age"


@dataclass
class Vault:
    """Collects secrets for the age file of a folder. Nothing is written before ``files``."""

    folder: Path
    _entries: dict[str, Secret] = field(default_factory=dict)

    def require_readable(self) -> None:
        """Raise an error if there is an age file already that this person cannot decrypt."""
        self._opened()

    def keep(self, name: str, value: Secret) -> str:
        """Add a secret, and return its source in the words of the file. An entry of another value is not replaced."""
        present = self._opened().entries if self._path.exists() else {}
        free, number = name, 2
        while free in present and present[free] != value:
            free, number = f"{name}_{number}", number + 1
        self._entries[free] = value
        return f"{{age: {STORE}, key: {free}}}"

    def files(self) -> Sequence[NewFile]:
        """Return the files to write: the age file and, if the person has none yet, an age identity."""
        if not self._entries:
            return []
        found: list[NewFile] = []
        if agefile.has_identity():
            _, keys = agefile.identities(self._path, None)
        else:
            content, identity = agefile.new_identity()
            keys = [identity]
            about = "decrypts the secrets; keep a copy of it"
            found.append(NewFile(agefile.own_identity_path(), content, about, PRIVATE))
        store = self._opened()
        for name, value in self._entries.items():
            store = store.with_entry(name, value)
        about = f"the secrets, encrypted: {', '.join(self._entries)}"
        return [*found, NewFile(self._path, store.encrypted(keys), about, PRIVATE, replaces=True)]

    @property
    def _path(self) -> Path:
        return self.folder / STORE

    def _opened(self) -> agefile.Store:
        return agefile.Store.open(self._path)


def from_environment(name: str) -> Secret:
    """Return the value of a variable that a flag names."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise BadInput(f"the environment variable {name} is not set")
    return Secret(value)


def from_file(path: str) -> Secret:
    """Return the content of a private file that a flag names, which is one line."""
    value = read_private(Path(path).expanduser()).strip()
    if not value or "\n" in value:
        raise BadInput(f"{path} has to contain one line")
    return Secret(value)
