"""The secrets of a conversation: kept in an age file beside paddock.yaml, or named as environment variables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from paddock.errors import BadInput
from paddock.secret import Secret
from paddock.setup.files import PRIVATE, NewFile
from paddock.spec import agefile
from paddock.spec.private import read_private

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
