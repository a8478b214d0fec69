"""Unpack templates and pack backups, with the ids of the containers' root and in a jail (see `inside`)."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from pvebox.api.errors import OperationError
from pvebox.cluster.tasks import Task
from pvebox.runtime.contract import Archive, ArchiveOrder, Say
from pvebox.runtime.lxc.mounts import HELPER
from pvebox.runtime.lxc.names import FIRST_ID, ID_COUNT
from pvebox.server.process import attempt, spawn

_CONFIG: Final = "./etc/vzdump/pct.conf"
_FIREWALL: Final = "./etc/vzdump/pct.fw"
# Proxmox's flags, in its order: they are part of its error messages.
_FLAGS: Final = (
    *("--totals", "--one-file-system", "-p", "--sparse", "--numeric-owner", "--acls"),
    *("--xattrs", "--xattrs-include=user.*", "--xattrs-include=security.capability"),
    *("--warning=no-file-ignored", "--warning=no-xattr-write"),
)
_COMPRESSION: Final = {".zst": "--zstd", ".gz": "--gzip", ".xz": "--xz"}
_COMPRESSORS: Final = {".zst": " | zstd '--threads=1'", ".gz": " | gzip --rsyncable"}
# Bytes of tar's messages that are logged. A hostile container can cause more messages than that.
_LONGEST_LOG: Final = 1 << 18


def _mapped(trees: Sequence[Path], *argv: str) -> tuple[str, ...]:
    """Return a command that runs in the jail, where the trees are /0, /1 and so on."""
    ids = (str(FIRST_ID), str(ID_COUNT))
    return (sys.executable, "-I", "-S", str(HELPER), "mapped", *ids, *map(str, trees), "--", *argv)


def unpack(archive: Archive, root: Path, task: Task) -> None:
    """Unpack an archive into a directory. Existing files stay.

    The config in a backup is not unpacked. Proxmox unpacks it, reads it and removes it; the firewall rules beside it
    stay if they are empty.
    """
    if archive.path is None:
        raise OperationError(f"volume '{archive.volid}' does not exist")
    program = _mapped(
        [root],
        *("tar", "xpf", "-", *_compression(archive.path), *_FLAGS, "-C", "/0", "--skip-old-files"),
        *("--anchored", "--exclude", "./dev/*", "--exclude", _CONFIG),
    )
    with archive.path.open("rb") as source, tempfile.TemporaryFile() as said:
        code = _run(program, task, source, said, said)
        task.say(*_lines(said)[-5:])
    if code != 0 and not archive.lenient:
        raise OperationError(f"command 'tar xpf - -C {root}' failed: exit code {code}")


def pack(root: Path, order: ArchiveOrder, task: Task, say: Say) -> int:
    """Pack a directory and a config into an archive and return the archive's size.

    As on Proxmox, tar's warnings make the backup fail: they say that a file changed while it was read.
    """
    target = order.target
    if target is None:
        raise OperationError("the backup has no target file")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(_stem(target.name) + ".tar.dat")
    try:
        with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as said:
            _write_config(Path(directory), order.config_text)
            arguments = ("tar", "cpf", "-", *_compression(target), *_selection(order, "/0", "/1"))
            with partial.open("wb") as out:
                code = _run(_mapped([Path(directory), root], *arguments), task, None, out, said)
            say(*_lines(said))
        if code == 0:
            partial.rename(target)
            return target.stat().st_size
    except Exception:  # NodeCrashError is a BaseException: a crashed node does not clean up
        partial.unlink(missing_ok=True)
        raise
    partial.unlink()
    raise _failed(order, target, code)


def _write_config(directory: Path, text: str) -> None:
    config, firewall = directory / _CONFIG, directory / _FIREWALL
    config.parent.mkdir(parents=True)
    config.write_text(text, encoding="utf-8")
    firewall.touch()
    # Only the containers' root, which runs tar, may read it.
    os.chown(directory, FIRST_ID, FIRST_ID)


def _selection(order: ArchiveOrder, config: str, tree: str) -> list[str]:
    """Return tar's arguments that select the content of an archive: the config, the root, then each mount point."""
    anywhere = [pattern for pattern in order.exclude if not pattern.startswith("/")]
    anchored = [pattern for pattern in order.exclude if pattern.startswith("/")]
    return [
        *(*_FLAGS, "--one-file-system", "--warning=no-file-ignored"),
        *(f"--directory={config}", _CONFIG, _FIREWALL, f"--directory={tree}"),
        *("--no-anchored", "--exclude=lost+found", *(f"--exclude={pattern}" for pattern in anywhere)),
        *("--anchored", *(f"--exclude=.{pattern}" for pattern in anchored)),
        *(f"./{mount.path.strip('/')}" for mount in order.spec.mounts),
    ]


def _failed(order: ArchiveOrder, target: Path, code: int) -> OperationError:
    """Return Proxmox's error for a failed tar, which quotes its command line."""
    stem = _stem(order.shown_target)
    words = ["tar", "cpf", "-", *_selection(order, f"{stem}.tmp", "/mnt/vzsnap0")]
    ids = f"u:0:{FIRST_ID}:{ID_COUNT} -m g:0:{FIRST_ID}:{ID_COUNT}"
    tar = " ".join(word if re.fullmatch(r"[\w!%+,\-./:@^]+", word, re.ASCII) else f"'{word}'" for word in words)
    piped = _COMPRESSORS.get(target.suffix, "")
    command = f"set -o pipefail && lxc-usernsexec -m {ids} -- {tar}{piped} >{stem}.tar.dat"
    return OperationError(f"command '{command}' failed: exit code {code}")


def _stem(name: str) -> str:
    return name.rpartition(".tar")[0]


def _run(program: Sequence[str], task: Task, source: IO[bytes] | None, out: IO[bytes], errors: IO[bytes]) -> int:
    """Run a program until it ends or the task is aborted, and return its exit code."""
    worker = spawn(*program, stdin=source, output=out, errors=errors)
    task.cancel = worker.terminate
    try:
        while worker.poll() is None:
            if task.aborted.wait(0.02):
                worker.wait()
                task.check_aborted()
    finally:
        task.cancel = None
    return worker.returncode


def config_in(archive: Path) -> str | None:
    """Return the text of the config in a backup, or None."""
    if not archive.exists():
        return None
    ended = attempt(
        *("tar", "--extract", "--to-stdout", "--occurrence=1", "--file", str(archive)),
        *(*_compression(archive), _CONFIG),
    )
    return ended.out if ended.ok else None


def _lines(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return file.read(_LONGEST_LOG).decode(errors="replace").rstrip("\n").split("\n")


def _compression(archive: Path) -> tuple[str, ...]:
    option = _COMPRESSION.get(archive.suffix)
    return () if option is None else (option,)
