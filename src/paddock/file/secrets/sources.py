"""Sources of secret values, which are read when they are needed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from paddock.base import process
from paddock.base.computer import read_private
from paddock.base.errors import BadInput, PaddockError
from paddock.base.secret import Secret
from paddock.file.models.fields import is_variable
from paddock.file.secrets import files as secret_files
from paddock.file.secrets.allowed import expect_allowed

# A path to a file, which is hardly a secret.
_PATH: Final = re.compile(r"(\.{0,2}|~)/|[\w./-]+\.(env|age|json|ya?ml|txt)$")


class Source(BaseModel):
    """Where a value comes from: exactly one of these, and with ``key`` one entry of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    env: str | None = Field(None, min_length=1, description="name of an environment variable with the value")
    file: Path | None = Field(None, strict=False, description="a file with the value as its content")
    dotenv: Path | None = Field(None, strict=False, description="a file of NAME=value lines; key: NAME takes one entry")
    age: Path | None = Field(
        None, strict=False, description="a file encrypted with age; key: NAME takes one of its NAME=value lines"
    )
    sops: Path | None = Field(None, strict=False, description="a file encrypted with sops; key: a.b takes one entry")
    command: list[str] | None = Field(
        None, min_length=1, description="a command that prints the value, run without a shell"
    )
    key: str | None = Field(None, min_length=1, description="the entry to take from a dotenv, age or sops file")
    identity: Path | None = Field(
        None,
        strict=False,
        description="age identity to decrypt an age or sops file with; without it an age file is decrypted with"
        " PADDOCK_AGE_KEY or ~/.config/paddock/age.key, and sops looks for its keys itself",
    )

    @model_validator(mode="before")
    @classmethod
    def _no_literals(cls, data: Any) -> Any:
        if not isinstance(data, dict | Source):
            # The value itself is not repeated: it may be the secret.
            if isinstance(data, str) and _PATH.match(data):
                raise ValueError("a path alone does not say what it names; for a file write {file: PATH}")
            raise ValueError("do not write a secret into the file; name its source, like {env: NAME} or {file: PATH}")  # noqa: TRY004
        return data

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        origins = [self.env, self.file, self.dotenv, self.age, self.sops, self.command]
        if len(origins) - origins.count(None) != 1:
            raise ValueError("needs exactly one of env, file, dotenv, age, sops and command")
        if self.key is not None and (self.dotenv, self.age, self.sops) == (None, None, None):
            raise ValueError("key: needs dotenv, age or sops")
        if self.identity is not None and self.age is None and self.sops is None:
            raise ValueError("identity: needs age or sops")
        return self

    def __str__(self) -> str:
        """Return the source as messages name it."""
        origin = self.env or self.file or self.dotenv or self.age or self.sops or " ".join(self.command or [])
        return f"{origin}:{self.key}" if self.key else str(origin)

    def read(self, base: Path) -> Secret:
        """Return the value, which must be one line; relative paths start at the folder ``base``."""
        value = self.content(base).reveal().removesuffix("\n").removesuffix("\r")
        if not value or any(ord(letter) < 32 for letter in value):
            raise BadInput(f"the value from {self} is empty or has line breaks")
        return Secret(value)

    def content(self, base: Path) -> Secret:
        """Return the whole content, of one or more lines; output masks the content and, in JSON, each text in it."""
        content = self._content(base)
        with suppress(ValueError, RecursionError):  # not JSON
            _remember(json.loads(content.reveal()))
        return content

    def _content(self, base: Path) -> Secret:
        if self.env is not None:
            value = os.environ.get(self.env)
            if not value:
                raise BadInput(f"environment variable {self.env} is not set")
            return Secret(value)
        if self.file is not None:
            return Secret(read_private(base / self.file.expanduser()))
        if self.command is not None:
            expect_allowed(self.command)
            return process.run_for_secret(self.command)
        identity = base / self.identity.expanduser() if self.identity else None
        if self.sops is not None:
            return _from_sops(base / self.sops.expanduser(), self.key, identity)
        if self.age is not None:
            whole = secret_files.decrypted(base / self.age.expanduser(), identity)
        else:
            whole = Secret(read_private(base / Path(self.dotenv or "").expanduser()))
        return whole if self.key is None else _entry(whole, self.key, str(self.age or self.dotenv))


def _remember(data: Any) -> None:
    """Make every text in a JSON document (like auth.json) a secret, so that output masks it."""
    match data:
        case dict():
            _remember(list(data.values()))
        case list():
            for each in data:
                _remember(each)
        case str():
            Secret(data)


def _entry(whole: Secret, key: str, origin: str) -> Secret:
    found = secret_files.entries(whole.reveal(), origin)
    if key not in found:
        raise BadInput(f"{origin} has no entry {key}")
    return Secret(found[key])


def _from_sops(path: Path, key: str | None, identity: Path | None) -> Secret:
    extract = ["--extract", "".join(f"[{json.dumps(part)}]" for part in key.split("."))] if key else []
    # sops also tries other keys of the person, so a wrong identity may still decrypt the file.
    env = {**os.environ, "SOPS_AGE_KEY_FILE": str(identity.absolute())} if identity else None
    try:
        return process.run_for_secret(["sops", "--decrypt", *extract, str(path)], env=env)
    except process.ProgramMissing:
        raise BadInput(f"{path} needs the program sops", hint="see https://getsops.io for how to install it") from None


def resolve(sources: Mapping[str, Source], base: Path, whole: Sequence[Source] = ()) -> dict[str, Secret]:
    """Return the values by name, or raise one error for all that are missing.

    ``whole`` are sources of NAME=value lines; ``sources`` override them.
    """
    found: dict[str, Secret] = {}
    missing: list[str] = []
    for source in whole:
        try:
            lines = secret_files.entries(source.content(base).reveal(), str(source))
            missing += [
                f"environment_files {source}: {name} cannot be a variable" for name in lines if not is_variable(name)
            ]
            found |= {name: Secret(value) for name, value in lines.items() if value}
        except PaddockError as error:
            missing.append(_told(f"environment_files {source}", error))
    for name, source in sources.items():
        try:
            found[name] = source.read(base)
        except PaddockError as error:
            missing.append(_told(name, error))
    if missing:
        raise BadInput("secrets are missing:\n" + "\n".join(f"  {line}" for line in missing))
    return found


def _told(name: str, error: PaddockError) -> str:
    return f"{name}: {error.message}" + (f" ({error.hint})" if error.hint else "")
