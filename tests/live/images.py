"""Container images without a registry, made from the Debian of the sandbox."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from pvebox.cluster.fixture import DEFAULT_TEMPLATE
from pvebox.runtime.base import ensure_base

# Files that no container needs. Images are copied several times in a test.
_DEAD_WEIGHT: Final = re.compile(
    r"\./(usr/share/(doc|locale|man|info|zoneinfo|perl|i18n)|usr/lib/(systemd|udev|modules)|boot|dev"
    r"|usr/lib/x86_64-linux-gnu/(perl|gconv|systemd|libperl\.so.*)|usr/s?bin/(dhclient|sshd|systemctl))(/|$)"
)
_TOOLS_FOR_ACCOUNTS: Final = re.compile(r"/(useradd|groupadd|usermod|groupmod|adduser|addgroup|setpriv)$")
# The first bytes of a program for another processor (aarch64).
FOREIGN_PROGRAM: Final = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00\x01\x00\x00\x00" + bytes(40)
_PYTHON: Final = re.compile(r"/python3[^/]*$")


def base_root(path: Path) -> Path:
    """A Debian root filesystem with Python and the tools that create accounts."""
    return _root(path, _DEAD_WEIGHT)


def bare_root(path: Path) -> Path:
    """A Debian root filesystem without the tools for accounts and privileges."""
    return _root(path, _DEAD_WEIGHT, _TOOLS_FOR_ACCOUNTS)


def root_without_python(path: Path) -> Path:
    """A Debian root filesystem whose packages say that it has Python, and whose programs are gone."""
    return _root(path, _DEAD_WEIGHT, _PYTHON)


def minimal_root() -> Path:
    """A Debian root filesystem with nothing but apt and what it needs, as the images ubuntu:24.04 and debian:12 are."""
    kept = ensure_base(DEFAULT_TEMPLATE).with_name("minimal.tar")
    if not kept.exists():
        building = kept.with_name(f"building-{os.getpid()}.tar")
        command = ["mmdebstrap", "--variant=minbase", "bookworm", str(building)]
        subprocess.run(command, check=True, capture_output=True, timeout=400)
        building.rename(kept)
    return kept


def root_with_user(path: Path, line: str) -> Path:
    """A Debian root filesystem with one more line in /etc/passwd."""
    return _root(path, _DEAD_WEIGHT, users=line.encode())


def root_with_shell(path: Path, shell: bytes | None) -> Path:
    """A nearly empty root filesystem with this content as /bin/sh, or without a shell."""
    with tarfile.open(path, "w") as root:
        for name in ("etc", "usr", "bin"):
            add_folder(root, name)
        if shell is not None:
            add(root, "bin/sh", shell, mode=0o755)
    return path


def image_without_its_layer(path: Path) -> Path:
    """A complete tar archive of an image whose layer is missing."""
    with tarfile.open(path, "w") as image:
        manifest = [{"Config": "config.json", "RepoTags": None, "Layers": ["layer.tar"]}]
        add(image, "config.json", b"{}")
        add(image, "manifest.json", json.dumps(manifest).encode())
    return path


def saved_image(path: Path, name: str, root: Path, *layers: Path, config: dict[str, Any] | None = None) -> Path:
    """Write an archive like that of `docker save`, from a root filesystem and more layers."""
    plain = path.with_name("base-layer.tar")
    with tarfile.open(root) as packed, tarfile.open(plain, "w") as layer:
        for entry in packed:
            layer.addfile(entry, packed.extractfile(entry) if entry.isreg() else None)
    files = [plain, *layers]
    diffs = [f"sha256:{_digest(file)}" for file in files]
    rootfs = {"type": "layers", "diff_ids": diffs}
    text = json.dumps({"architecture": "amd64", "os": "linux", "config": config or {}, "rootfs": rootfs}).encode()
    described = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": described, "RepoTags": [name], "Layers": [file.name for file in files]}]
    with tarfile.open(path, "w") as image:
        add(image, described, text)
        add(image, "manifest.json", json.dumps(manifest).encode())
        for file in files:
            image.add(file, file.name)
    plain.unlink()
    return path


def text_of_base(name: str) -> bytes:
    """Return a file of the Debian root filesystem."""
    with _debian() as tar:
        for entry in tar:
            if entry.name == name:
                content = tar.extractfile(entry)
                assert content is not None
                return content.read()
    raise AssertionError(f"the base has no {name}")


def _root(path: Path, *without: re.Pattern[str], users: bytes = b"") -> Path:
    with _debian() as source, tarfile.open(path, "w:gz", compresslevel=1) as target:
        for entry in source:
            if entry.isdev() or any(pattern.search(entry.name) for pattern in without):
                continue
            content = source.extractfile(entry) if entry.isreg() else None
            if content and entry.name == "./etc/passwd":
                add(target, entry.name, content.read() + users)
            else:
                target.addfile(entry, content)
    return path


@contextmanager
def _debian() -> Iterator[tarfile.TarFile]:
    command = ["zstd", "-dcq", str(ensure_base(DEFAULT_TEMPLATE))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as unpacked:
        assert unpacked.stdout is not None
        with tarfile.open(fileobj=unpacked.stdout, mode="r|") as tar:
            yield tar


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def add_folder(tar: tarfile.TarFile, name: str) -> None:
    """Add an empty folder to a layer."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(entry)


def add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    """Add a file to a layer."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    source: IO[bytes] = io.BytesIO(content)
    tar.addfile(entry, source)
