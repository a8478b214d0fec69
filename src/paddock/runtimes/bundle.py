"""Bundles: the rendered configuration of an agent, named by its content. A bundle never contains a secret."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping, Sequence

from paddock.frozen import frozen
from paddock.runtimes import envfile
from paddock.secret import Secret


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
        """Return the bundle with what the file limits of its units, if it limits anything."""
        return Bundle({**self.files, "limits": BundleFile(lines)}) if lines else self

    def archive(self, secrets: Mapping[str, Secret], secret_files: Mapping[str, Secret]) -> bytes:
        """Return a tar with the bundle below ``bundle/``, and the secrets in ``secrets.env`` and ``secret-files/``."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for path, file in sorted(self.files.items()):
                _add(tar, f"bundle/{path}", file.content, file.mode)
            _add(tar, "secrets.env", envfile.dump(secrets), 0o600)
            for name, content in sorted(secret_files.items()):
                _add(tar, f"secret-files/{name}", content.reveal(), 0o400)
        return buffer.getvalue()


def secrets_digest(secrets: Mapping[str, Secret], lasting_files: Mapping[str, Secret]) -> str:
    """Return the hash that ``sha256sum`` prints for the secrets on the machine. It is compared, and never stored."""
    texts = [envfile.dump(secrets), *(content.reveal() for _, content in sorted(lasting_files.items()))]
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def _add(tar: tarfile.TarFile, name: str, content: str, mode: int) -> None:
    data = content.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
