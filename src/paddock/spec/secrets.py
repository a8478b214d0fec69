"""Where secret values come from; they are read late, and all missing ones are told at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from paddock.errors import BadInput
from paddock.secret import Secret


class Source(BaseModel):
    """One place a value can come from; with ``key``, one entry of what is there."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    env: str | None = Field(None, description="name of an environment variable")
    file: Path | None = Field(None, strict=False, description="a file that is the value")
    dotenv: Path | None = Field(None, strict=False, description="a file of NAME=value lines; with key: NAME")
    age: Path | None = Field(None, strict=False, description="a file encrypted with age, of NAME=value lines with key:")
    sops: Path | None = Field(None, strict=False, description="a file encrypted with sops; key: a.b takes one entry")
    command: list[str] | None = Field(None, min_length=1, description="a command that prints the value; no shell")
    key: str | None = Field(None, description="which entry of a dotenv, age or sops file; without it the whole content")
    identity: Path | None = Field(
        None, strict=False, description="age identity to decrypt with; without it PADDOCK_AGE_KEY or your own"
    )

    @model_validator(mode="before")
    @classmethod
    def _no_literals(cls, data: Any) -> Any:
        if isinstance(data, str):
            # The value itself is not repeated: it may be the secret.
            raise ValueError("a secret is not written in the file; name its source, like {env: NAME}")  # noqa: TRY004
        return data

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        origins = [self.env, self.file, self.dotenv, self.age, self.sops, self.command]
        if len(origins) - origins.count(None) != 1:
            raise ValueError("a value has one source: env, file, dotenv, age, sops or command")
        if self.key is not None and (self.dotenv, self.age, self.sops) == (None, None, None):
            raise ValueError("key: goes with dotenv, age or sops")
        if self.identity is not None and self.age is None:
            raise ValueError("identity: goes with age")
        return self

    def read(self, base: Path) -> Secret:
        """Return the value; paths are relative to the folder of the file that names them."""
        if self.env is not None:
            value = os.environ.get(self.env)
            if not value:
                raise BadInput(f"environment variable {self.env} is not set")
            return _checked(value, self.env)
        if self.file is not None:
            return _checked(_private_text(base / self.file.expanduser()).rstrip("\n"), str(self.file))
        if self.age is not None and self.key is not None:
            return _checked(_age_entry(base / self.age.expanduser(), self.key), f"{self.age}:{self.key}")
        raise AssertionError("the validator lets no source without an origin pass")


def resolve(sources: Mapping[str, Source], base: Path) -> dict[str, Secret]:
    """Return all values, or one error that names everything missing."""
    found: dict[str, Secret] = {}
    missing: list[str] = []
    for name, source in sources.items():
        try:
            found[name] = source.read(base)
        except BadInput as error:
            missing.append(f"{name}: {error.message}")
    if missing:
        raise BadInput("secrets are missing:\n" + "\n".join(f"  {line}" for line in missing))
    return found


def _checked(value: str, origin: str) -> Secret:
    if not value or any(ord(letter) < 32 for letter in value):
        raise BadInput(f"the value from {origin} is empty or has line breaks in it")
    return Secret(value)


def _private_text(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise BadInput(f"{path} can be read by others", hint=f"chmod 600 {path}")
    return text


def _age_entry(path: Path, key: str) -> str:
    # pyrage costs 10 ms of import and few files use age.
    from pyrage import DecryptError, IdentityError, decrypt, x25519

    identity_path = os.environ.get("PADDOCK_AGE_KEY")
    if identity_path is None:
        raise BadInput(f"{path} is encrypted", hint="set PADDOCK_AGE_KEY to the path of your age identity")
    lines = _private_text(Path(identity_path).expanduser()).splitlines()
    identity_text = next((line for line in lines if line.startswith("AGE-SECRET-KEY-")), "")
    try:
        plain = str(decrypt(path.read_bytes(), [x25519.Identity.from_str(identity_text)]), "utf-8")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except IdentityError:
        raise BadInput(f"{identity_path} holds no age identity") from None
    except (DecryptError, UnicodeDecodeError):
        raise BadInput(f"{path} cannot be decrypted with {identity_path}") from None
    for line in plain.splitlines():
        name, found, value = line.partition("=")
        if found and name.strip() == key:
            return value.strip()
    raise BadInput(f"{path} has no entry {key}")
