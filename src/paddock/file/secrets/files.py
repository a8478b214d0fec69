"""Files with secrets: lines of ``NAME=value``, and age-encrypted files, which are changed one entry at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from paddock.base import folders
from paddock.base.computer import read_private, write_private
from paddock.base.errors import BadInput
from paddock.base.frozen import frozen
from paddock.base.secret import Secret

_LINE: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=(.*)")
# Quotes end at the first one that only a comment follows.
_QUOTED: Final = re.compile(r"""(["'])(.*?)\1(?:\s+#.*)?""")
_COMMENT: Final = re.compile(r"\s#")


def entries(text: str, origin: str) -> dict[str, str]:
    """Return the values by name; raise an error for a line that is neither an entry nor a comment."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            # The line is not repeated: it may be the secret.
            raise BadInput(f"line {number} of {origin} is not NAME=value")
        value = _value(match[2])
        if value is None:
            raise BadInput(
                f"line {number} of {origin} has a # after white space, which some readers take for a comment",
                hint="put the value in quotes, or the comment on a line of its own",
            )
        found[match[1]] = value
    return found


def _value(text: str) -> str | None:
    """Return the value of an entry, or none if readers disagree on where it ends."""
    if quoted := _QUOTED.fullmatch(text.strip()):
        return quoted[2]
    return None if _COMMENT.search(text) else text.strip()


def written(name: str, value: str) -> str:
    """Return the line of an entry, quoted where needed."""
    for form in (value, f'"{value}"', f"'{value}'"):
        if _value(form) == value:
            return f"{name}={form}"
    raise BadInput(f"the value of {name} cannot be written as one line: it has a # after quotes of both kinds")


# pyrage is imported where it is used: it costs 10 ms and few files use age.

VARIABLE: Final = "PADDOCK_AGE_KEY"
_RECIPIENTS: Final = "# recipients:"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def own_identity_path() -> Path:
    """Return the default path of the person's age identity."""
    return folders.config() / "paddock/age.key"


def decrypted(path: Path, identity: Path | None = None) -> Secret:
    """Return the text of an age file, decrypted with the given identity, PADDOCK_AGE_KEY or the default one."""
    from pyrage import DecryptError, decrypt

    origin, keys = identities(path, identity)
    try:
        return Secret(str(decrypt(path.read_bytes(), keys), "utf-8"))
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except DecryptError:
        raise BadInput(f"{path} cannot be decrypted with {origin}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not a text in UTF-8") from None


def identities(path: Path, identity: Path | None) -> tuple[str, list[Any]]:
    from pyrage import IdentityError, ssh, x25519

    given = os.environ.get(VARIABLE, "").strip()
    if identity is None and given.startswith("AGE-SECRET-KEY-"):
        origin, text = VARIABLE, Secret(given).reveal()
    else:
        chosen = identity or (Path(given).expanduser() if given else own_identity_path())
        if identity is None and not given and not chosen.exists():
            raise BadInput(
                f"{path} is encrypted", hint=f"set {VARIABLE} to your age identity or its path, or put it in {chosen}"
            )
        origin, text = str(chosen), read_private(chosen)
    try:
        if "PRIVATE KEY-----" in text:
            return origin, [ssh.Identity.from_buffer(text.encode())]
        lines = [line.strip() for line in text.splitlines()]
        keys = [x25519.Identity.from_str(line) for line in lines if line.startswith("AGE-SECRET-KEY-")]
    except IdentityError:
        keys = []
    if not keys:
        raise BadInput(f"{origin} holds no age identity")
    return origin, keys


@frozen
class Store:
    """The entries and the recipients of an age file."""

    path: Path
    entries: Mapping[str, Secret]
    recipients: Sequence[str]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the file; a file that does not exist has no entries."""
        if not path.exists():
            return cls(path, {}, [])
        text = decrypted(path).reveal()
        recipients = [
            recipient
            for line in text.splitlines()
            if line.startswith(_RECIPIENTS)
            for recipient in line.removeprefix(_RECIPIENTS).split()
        ]
        values = entries(text, str(path))
        return cls(path, {name: Secret(value) for name, value in values.items()}, recipients)

    def with_entry(self, name: str, value: Secret) -> Self:
        return replace(self, entries={**self.entries, name: value})

    def without(self, name: str) -> Self:
        return replace(self, entries={other: value for other, value in self.entries.items() if other != name})

    def get(self, name: str) -> Secret:
        """Return one entry; raise an error if the file has none of that name."""
        if name not in self.entries:
            raise BadInput(
                f"{self.path} has no entry {name}", hint=f"`paddock secrets list --in {self.path}` shows them"
            )
        return self.entries[name]

    def for_others(self, more: Sequence[str]) -> Self:
        """Return the store with more recipients."""
        return replace(self, recipients=[*self.recipients, *(each for each in more if each not in self.recipients)])

    def save(self) -> None:
        """Encrypt for the person's own identity and all recipients, and replace the file atomically."""
        _, keys = identities(self.path, None)
        write_private(self.path, self.encrypted(keys))

    def encrypted(self, keys: Sequence[Any]) -> bytes:
        """Return the content of the file, for these identities and all recipients."""
        from pyrage import RecipientError, encrypt, x25519

        # An encrypted file does not show its recipients, so its text lists them.
        lines = [f"{_RECIPIENTS} {' '.join(self.recipients)}"] if self.recipients else []
        lines += [written(name, value.reveal()) for name, value in sorted(self.entries.items())]
        try:
            readers = [key.to_public() for key in keys]
            readers += [x25519.Recipient.from_str(recipient) for recipient in self.recipients]
        except (RecipientError, AttributeError):
            raise BadInput("a recipient is not an age public key (age1…)") from None
        content: bytes = encrypt("".join(f"{line}\n" for line in lines).encode(), readers, armored=True)
        return content


def set_entry(path: Path, name: str, value: str, recipients: Sequence[str]) -> Iterator[str]:
    """Set an entry, creating the file on first use; yield lines for the user."""
    value = value.removesuffix("\n").removesuffix("\r")
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} is not a name: letters, digits, _ . and -, beginning with a letter")
    if not value or any(ord(letter) < 32 for letter in value):
        raise BadInput("the value is empty or has line breaks")
    if not has_identity():
        content, _ = new_identity()
        write_private(own_identity_path(), content)
        yield f"created your age identity {own_identity_path()}: keep a copy, nothing can be decrypted without it"
    Store.open(path).with_entry(name, Secret(value)).for_others(recipients).save()
    yield f"{path}: {name} is set; in paddock.yaml write {{age: {path}, key: {name}}}"


def remove_entry(path: Path, name: str) -> None:
    """Remove an entry of an encrypted file; raise an error if the file has no entry of that name."""
    store = Store.open(path)
    store.get(name)
    store.without(name).save()


def has_identity() -> bool:
    """Whether the person has an age identity."""
    return bool(os.environ.get(VARIABLE, "").strip()) or own_identity_path().exists()


def new_identity() -> tuple[bytes, Any]:
    """Return the content of the file for a new age identity, and the identity."""
    from pyrage import x25519

    identity = x25519.Identity.generate()
    return f"# public key: {identity.to_public()}\n{identity}\n".encode(), identity
