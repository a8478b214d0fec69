"""Code trees: built once here from a lock with hashes, then unpacked on the machine as root's."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from paddock import process
from paddock.errors import PaddockError
from paddock.guests import Guest, expect
from paddock.process import CommandFailed
from paddock.recipes.workload import CodeTree

_PLATFORMS: Final = {"x86_64": "x86_64-manylinux_2_28", "aarch64": "aarch64-manylinux_2_28"}


@dataclass(frozen=True)
class Interpreter:
    """A Python on the machine."""

    path: str
    version: str
    arch: str


def install(guest: Guest, tree: CodeTree, store: str, agent: str | None = None) -> None:
    """Put the tree into the store on the machine, and keep it there for the agent; without one, for any."""
    interpreter = find_interpreter(guest, tree.pythons)
    archive = build(tree, interpreter)
    argv = [*_script("install.sh"), store, tree.id, agent or "", interpreter.path, *tree.proof]
    expect(guest, "installing the code", argv, stdin=archive.read_bytes(), deadline=600)


def find_interpreter(guest: Guest, versions: Sequence[str]) -> Interpreter:
    """Return a Python of one of the versions, installing the distribution's where there is none."""
    printed = expect(guest, "looking for Python", [*_script("python.sh"), *versions], deadline=300)
    if not printed.strip():
        raise PaddockError(
            f"{guest.name} has no Python {' or '.join(versions)}",
            hint="install one of them, or use a base with it (Debian 12 and 13 and Ubuntu 24.04 have one)",
        )
    path, version, arch = printed.split()
    return Interpreter(path, version, arch)


def build(tree: CodeTree, interpreter: Interpreter) -> Path:
    """Return the tree's packages for that interpreter as an archive, made once and kept in the cache."""
    platform = _PLATFORMS.get(interpreter.arch)
    if platform is None:
        raise PaddockError(f"no packages are built for {interpreter.arch}", hint=f"known: {', '.join(_PLATFORMS)}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paddock/code"
    archive = cache / f"{tree.id}-{interpreter.version}-{interpreter.arch}.tar.gz"
    if archive.exists():
        return archive
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        packages = Path(folder) / "packages"
        lock = Path(folder) / "lock.txt"
        lock.write_text(tree.lock)
        # A target of its own, so that this machine's Python and platform do not matter.
        result = process.run(
            [
                *(
                    _uv(),
                    "pip",
                    "install",
                    "--quiet",
                    "--no-config",
                    "--require-hashes",
                    "--only-binary",
                    ":all:",
                ),
                "--system-certs",  # where a company's proxy is trusted
                *("--target", str(packages), "--python-version", interpreter.version),
                *("--python-platform", platform, "-r", str(lock)),
            ],
            deadline=900,
        )
        if not result.ok:
            raise CommandFailed("fetching the agent's packages", result)
        unfinished = Path(folder) / "archive"
        unfinished.write_bytes(_packed(packages))
        unfinished.replace(archive)
    return archive


def _packed(folder: Path) -> bytes:
    """The folder as a tar.gz in which nothing but the files themselves counts."""
    shutil.rmtree(folder / "bin", ignore_errors=True)  # launchers with this machine's interpreter in them
    (folder / ".lock").unlink(missing_ok=True)  # uv's own
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder), recursive=False, filter=_anonymous)
    return buffer.getvalue()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def _uv() -> str:
    from uv import find_uv_bin

    return find_uv_bin()


def _script(name: str) -> list[str]:
    text = (resources.files("paddock.runtimes") / name).read_text(encoding="utf-8")
    return ["sh", "-c", text, "paddock"]
