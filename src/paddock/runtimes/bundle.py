"""Bundles: the rendered configuration of an agent, named by its content. A bundle never contains a secret."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from paddock.base.frozen import frozen
from paddock.base.secret import Secret
from paddock.base.text import lines
from paddock.kinds.workload import Keep, SecretFile, Workload
from paddock.onboard.configure import File, Sent


@frozen
class BundleFile:
    content: str
    executable: bool = False

    @property
    def mode(self) -> int:
        return 0o755 if self.executable else 0o644


@frozen
class Bundle:
    """The files of a bundle, by their path below its folder."""

    files: Mapping[str, BundleFile]

    @property
    def id(self) -> str:
        """The hash of the files, which names the bundle."""
        digest = hashlib.sha256()
        for path, file in sorted(self.files.items()):
            digest.update(f"{path}\0{file.mode:o}\0{len(file.content)}\0{file.content}\0".encode())
        return digest.hexdigest()[:12]

    def with_people(self, keys: Sequence[str]) -> Bundle:
        """Return the bundle with the public keys of people who may log in to the machine."""
        text = "".join(f"{key}\n" for key in keys)
        return Bundle({**self.files, "people": BundleFile(text)}) if keys else self

    def with_limits(self, lines: str) -> Bundle:
        """Return the bundle with the file's limits for its units, if there are any."""
        return Bundle({**self.files, "limits": BundleFile(lines)}) if lines else self

    def sent(
        self,
        secrets: Mapping[str, Secret],
        secret_files: Mapping[str, Secret],
        *,
        version: str = "",
        distribution: str = "",
        whole: bool = False,
    ) -> Sent:
        """Return the bundle with the secrets of its agent, as a request has it."""
        return Sent(
            self.id,
            {path: File(file.content, file.mode) for path, file in sorted(self.files.items())},
            dump(secrets),
            {name: content.reveal() for name, content in sorted(secret_files.items())},
            version,
            distribution,
            whole,
        )


def secrets_digest(secrets: Mapping[str, Secret], lasting_files: Mapping[str, Secret]) -> str:
    """Return the hash that ``sha256sum`` prints for the secrets on the machine. It is compared, and never stored."""
    texts = [dump(secrets), *(content.reveal() for _, content in sorted(lasting_files.items()))]
    return hashlib.sha256("".join(texts).encode()).hexdigest()


_SPECIAL: Final = re.compile(r'([\\"`$])')
_ESCAPED: Final = re.compile(r"\\(.)")


def quote(value: str) -> str:
    """Return the value in double quotes, with the special characters of systemd and a shell escaped."""
    return '"' + _SPECIAL.sub(r"\\\1", value) + '"'


def dump(values: Mapping[str, Secret]) -> str:
    """Return the text of an environment file."""
    return "".join(f"{name}={quote(value.reveal())}\n" for name, value in sorted(values.items()))


def parse(text: str) -> dict[str, Secret]:
    """Return the values of a text from ``dump``, or of plain ``NAME=value`` lines."""
    values: dict[str, Secret] = {}
    for line in lines(text):
        name, _, value = line.partition("=")
        if value[:1] == '"':
            value = _ESCAPED.sub(r"\1", value[1:-1])
        values[name] = Secret(value)
    return values


LIST = "state/list"


def rendered(workload: Workload) -> dict[str, str]:
    """Return the list and the contents that it names, as files of a bundle."""
    contents = {f"state/{number}": file.content for number, file in enumerate(workload.state_files)}
    return {LIST: "".join(_line(*words) for words in _entries(workload)), **contents}


def secret_name(workload: Workload, file: SecretFile) -> str:
    """Return the name of a secret file in the archive."""
    return str(list(workload.secret_files).index(file))


def held(workload: Workload) -> list[str]:
    """Return the directories above locked files, from the home down. The agent can add files, but not replace them."""
    locked = [PurePosixPath(file.path) for file in workload.state_files if file.keep is Keep.LOCKED]
    return sorted({str(folder) for path in locked for folder in path.parents})


def _entries(workload: Workload) -> Iterator[tuple[str, str, str]]:
    held_folders = held(workload)
    for folder in held_folders:
        yield "hold", folder, ""
    for number, file in enumerate(workload.state_files):
        if file.keep is Keep.LOCKED:
            yield file.keep, file.path, str(number)
    yield from (("folder", folder, "") for folder in workload.directories if folder not in held_folders)
    for number, file in enumerate(workload.state_files):
        if file.keep is not Keep.LOCKED:
            yield file.keep, file.path, str(number)
    for secret in workload.secret_files:
        verb = "secret-plant" if secret.overwrite else "secret-seed"
        yield verb, secret.path, secret_name(workload, secret)


def _line(verb: str, path: str, source: str) -> str:
    if not path.isprintable():
        raise ValueError(f"a path in the state cannot be {path!r}")
    return f"{verb}\t{source or '-'}\t{path}\n"
