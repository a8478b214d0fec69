"""Unpack templates and pack backups, with the ids of the containers' root."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import IO, Final

from ..errors import OperationError
from ..process import attempt, spawn
from ..runtime import Archive
from ..tasks import Task
from .mounts import HELPER
from .names import FIRST_ID, ID_COUNT

_CONFIG: Final = "./etc/vzdump/pct.conf"
_ATTRIBUTES: Final = (
    *("--numeric-owner", "--acls", "--xattrs", "--xattrs-include=user.*"),
    *("--xattrs-include=security.capability", "--sparse"),
)


def _mapped(*argv: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(HELPER), "mapped", str(FIRST_ID), str(ID_COUNT), *argv)


def unpack(archive: Archive, root: Path, task: Task) -> None:
    """Unpack an archive into a directory. Existing files stay."""
    if archive.path is None:
        raise OperationError(f"volume '{archive.volid}' does not exist")
    program = _mapped(
        *("tar", "--extract", "--file", "-", *_compression(archive.path), "--totals", "--one-file-system"),
        *("--preserve-permissions", *_ATTRIBUTES, "--directory", str(root), "--skip-old-files"),
        *("--anchored", "--exclude", "./dev/*", "--exclude", _CONFIG),
    )
    with archive.path.open("rb") as source, tempfile.TemporaryFile() as said:
        worker = spawn(*program, stdin=source, output=said)
        task.cancel = worker.terminate
        try:
            while worker.poll() is None:
                if task.aborted.wait(0.02):
                    worker.wait()
                    task.check_aborted()
        finally:
            task.cancel = None
        task.say(*_lines(said)[-5:])
    if worker.returncode != 0 and not archive.lenient:
        raise OperationError(f"command 'tar xpf - -C {root}' failed: exit code {worker.returncode}")


def pack(root: Path, target: Path, config_text: str) -> int:
    """Pack a directory and a config into an archive and return the archive's size."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as said:
        config = Path(directory) / _CONFIG
        config.parent.mkdir(parents=True)
        config.write_text(config_text, encoding="utf-8")
        # Only the containers' root, which runs tar, may read it.
        os.chown(directory, FIRST_ID, FIRST_ID)
        temporary = target.with_name(f".{target.name}")
        program = _mapped(
            *("tar", "--create", "--file", "-", *_compression(target), *_ATTRIBUTES),
            *("--exclude=./lost+found", "--exclude=./*/lost+found"),
            *("--directory", directory, _CONFIG, "--directory", str(root), "."),
        )
        with temporary.open("wb") as out:
            worker = spawn(*program, output=out, errors=said)
            code = worker.wait()
        if code != 0:
            temporary.unlink()
            first = _lines(said)[:1] or [f"exit code {code}"]
            raise OperationError(f"command 'tar cpf -' failed: {first[0]}")
        temporary.rename(target)
    return target.stat().st_size


def config_in(archive: Path) -> str | None:
    """Return the text of the config in a backup, or None."""
    if not archive.exists():
        return None
    ended = attempt(
        "tar",
        "--extract",
        "--to-stdout",
        "--occurrence=1",
        "--file",
        str(archive),
        *_compression(archive),
        _CONFIG,
    )
    return ended.out if ended.ok else None


def _lines(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return file.read().decode(errors="replace").rstrip("\n").split("\n")


def _compression(archive: Path) -> tuple[str, ...]:
    kinds = {".zst": ("--zstd",), ".gz": ("--gzip",), ".xz": ("--xz",)}
    return kinds.get(archive.suffix, ())
