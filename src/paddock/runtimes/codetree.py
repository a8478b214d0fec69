"""Code trees: built once here from a lock with hashes, then unpacked on the machine as root's."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock import process
from paddock.errors import PaddockError
from paddock.guests import Guest, expect
from paddock.guests.report import records
from paddock.process import CommandFailed
from paddock.recipes.packaged import sources
from paddock.recipes.workload import CodeTree, Distribution, LocalCode, Tool
from paddock.runtimes.fetch import fetch, has_hash
from paddock.runtimes.shell import script

_GLIBC: Final = (2, 28)
_TOOLS: Final = ".bin"  # in the archive; install.sh puts them beside the package's own programs
_WHEELS: Final = ("--only-binary", ":all:")
_PLATFORMS: Final = {"x86_64": "x86_64-manylinux_2_28", "aarch64": "aarch64-manylinux_2_28"}


@dataclass(frozen=True)
class Interpreter:
    """A Python on the machine."""

    path: str
    version: str
    arch: str


def install(guest: Guest, tree: CodeTree, store: str, agent: str | None = None, name: str | None = None) -> None:
    """Put the tree into the store on the machine, and keep it there for the agent; without one, for any."""
    interpreter = find_interpreter(guest, tree.pythons)
    archive = build(tree, interpreter)
    known = tree.distribution.name
    arguments = [store, name or tree.id, agent or "", known, interpreter.path, *tree.proof]
    argv = script("install.sh", arguments)
    expect(guest, "installing the code", argv, stdin=archive.read_bytes(), deadline=600)


def find_interpreter(guest: Guest, versions: Sequence[str]) -> Interpreter:
    """Return a Python of one of the versions, installing the distribution's where there is none."""
    argv = script("python.sh", versions)
    found = dict(records(expect(guest, "looking for Python", argv, deadline=300)))
    if "python" not in found:
        raise PaddockError(
            f"{guest.name} has no Python {' or '.join(versions)}",
            hint="install one of them, or use a base with it (Debian 12 and 13 and Ubuntu 24.04 have one)",
        )
    path, version, arch, libc = found["python"].split()
    if not _is_recent(libc):
        raise PaddockError(
            f"the C library of {guest.name} is {libc.replace('-', ' ')}; the agent's packages need glibc 2.28 or newer",
            hint="Debian 12 and 13 and Ubuntu 24.04 have it; Alpine has another one",
        )
    return Interpreter(path, version, arch)


def _is_recent(libc: str) -> bool:
    name, _, version = libc.partition("-")
    return name == "glibc" and tuple(map(int, version.split(".")[:2])) >= _GLIBC


def build(tree: CodeTree, interpreter: Interpreter) -> Path:
    """Return the tree's packages for that interpreter as an archive, made once and kept in the cache."""
    platform = _PLATFORMS.get(interpreter.arch)
    if platform is None:
        raise PaddockError(f"no packages are built for {interpreter.arch}", hint=f"known: {', '.join(_PLATFORMS)}")
    archive = _cache() / f"{tree.id}-{interpreter.version}-{interpreter.arch}.tar.gz"
    if _is_whole(archive):
        return archive
    with tempfile.TemporaryDirectory(dir=_cache()) as folder:
        packages = Path(folder) / "packages"
        lock = Path(folder) / "lock.txt"
        lock.write_text(_requirements(tree))
        # A target of its own, so that this machine's Python and platform do not matter.
        target = ["--target", str(packages), "--python-version", interpreter.version, "--python-platform", platform]
        uv("fetching the agent's packages", "pip", "install", "--require-hashes", *_WHEELS, *target, "-r", str(lock))
        for tool in tree.tools:
            _put_tool(tool, interpreter.arch, packages / _TOOLS)
        unfinished = Path(folder) / "archive"
        unfinished.write_bytes(_packed(packages))
        _keep(unfinished, archive)
    return archive


def _keep(unfinished: Path, kept: Path) -> None:
    """Put a file into the cache, with its hash beside it."""
    note = unfinished.with_name(_noted(kept).name)
    note.write_text(_sha256(unfinished))
    note.replace(_noted(kept))
    unfinished.replace(kept)


def _is_whole(kept: Path) -> bool:
    """Whether a file of the cache is there as it was put there; else it is made again."""
    try:
        return _noted(kept).read_text() == _sha256(kept)
    except OSError:
        return False


def _noted(kept: Path) -> Path:
    return kept.with_name(f"{kept.name}.sha256")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _put_tool(tool: Tool, arch: str, folder: Path) -> None:
    """Put a program of another origin into the folder; its archive is fetched once and kept in the cache."""
    archive = _cache() / f"{tool.name}-{tool.sha512[:16]}.tgz"
    if not has_hash(archive, tool.sha512):
        with tempfile.TemporaryDirectory(dir=_cache()) as passing:
            fetched = fetch(tool.name, tool.version, tool.sha512, Path(passing), archive)
            fetched.replace(archive)
    folder.mkdir(exist_ok=True)
    with tarfile.open(archive) as tar, (folder / tool.name).open("wb") as program:
        member = tar.extractfile(tool.files[arch])
        if member is None:
            raise PaddockError(f"{tool.name} {tool.version} has no {tool.files[arch]}")
        shutil.copyfileobj(member, program)
    (folder / tool.name).chmod(0o755)


def _requirements(tree: CodeTree) -> str:
    """The lock, with code of this machine in the place of the index' own."""
    wanted = tree.distribution
    if wanted.local is None:
        return tree.lock
    wheel = _wheel(wanted.local)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    others = locked_without(tree.lock, wanted.name)
    return f"{others}{wanted.requirement} @ {wheel.as_uri()} --hash=sha256:{digest}\n"


def locked_without(lock: str, name: str) -> str:
    """Return a lock without one of its packages."""
    return re.sub(rf"^{re.escape(name)}( @|==).*\n(?:[ \t]+.*\n)*", "", lock, flags=re.MULTILINE)


def make_lock(wanted: Distribution, python: str) -> str:
    """Return a lock of everything a package needs, for every platform, as today's index has it; wheels only."""
    with tempfile.TemporaryDirectory(dir=_cache()) as folder:
        what, lock = Path(folder) / "wanted.in", Path(folder) / "lock.txt"
        pin = f"== {wanted.version}" if wanted.local is None else f"@ {_wheel(wanted.local).as_uri()}"
        what.write_text("\n".join([f"{wanted.requirement} {pin}", *wanted.beside]) + "\n")
        shape = ("--universal", "--python-version", python, "--generate-hashes")
        bare = ("--no-header", "--no-annotate", "--no-emit-index-url")
        uv(f"locking {wanted.name}", "pip", "compile", *shape, *bare, *_WHEELS, "-o", str(lock), str(what))
        text = lock.read_text()
    if wanted.local is not None:
        text = locked_without(text, wanted.name)
    return f"# {', '.join([wanted.requirement + ' ' + wanted.version, *wanted.beside])} and all they need\n{text}"


def _wheel(local: LocalCode) -> Path:
    """The wheel of local code, built from its sources if it is a folder of such, once for each state of them."""
    if not local.path.is_dir():
        return local.path
    kept = _cache() / f"wheel-{local.digest[:16]}"
    found = next(kept.glob("*.whl"), None)
    if found is None or not _is_whole(found):
        with tempfile.TemporaryDirectory(dir=_cache()) as folder:
            copy = Path(folder) / "sources"  # what building leaves behind is not for the person's folder
            for file in sources(local.path):
                target = copy / file.relative_to(local.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target)
            uv(f"building {local.path.name}", "build", "--wheel", "--out-dir", f"{folder}/wheel", str(copy))
            made = next((Path(folder) / "wheel").glob("*.whl"))
            kept.mkdir(exist_ok=True)
            found = kept / made.name
            _keep(made, found)
    return found


def _cache() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paddock/code"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


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


def uv(title: str, *words: str) -> None:
    """Run uv; certificates are the system's, where a company's proxy is trusted."""
    from uv import find_uv_bin

    argv = [find_uv_bin(), *words, "--quiet", "--no-config", "--system-certs"]
    result = process.run(argv, deadline=900)
    if not result.ok:
        failed = CommandFailed(title, result)
        if os.strerror(errno.ENOSPC) in result.err:
            failed.hint = f"this machine's disk is full: make room for {_cache()} and for uv's own cache"
        raise failed
