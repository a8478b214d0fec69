"""The ways on which a secret could leave Paddock. Each channel searches what went that way."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from tempfile import NamedTemporaryFile
from typing import Any, Final

import zstandard

from security.canaries import Canaries

# A variable in the environment of the person. A process that has it got all of that environment.
PERSON: Final = "CANARY_PERSON"
_LARGEST: Final = 64 << 20  # bytes of a file; larger ones are images and code


@dataclass
class Channel:
    """One way out. ``allowed`` says which kinds may be at a place, such as an agent's own keys in its environment."""

    name: str
    allowed: Callable[[str], frozenset[str]] = field(default=lambda where: frozenset(), kw_only=True)

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Yield everything that went this way, with the place."""
        raise NotImplementedError

    def find(self, canaries: Canaries) -> set[tuple[str, str]]:
        """Return the kind and the place of each canary that should not be there."""
        return {
            (kind, where)
            for where, data in self.texts()
            for kind in canaries.found(data)
            if kind not in self.allowed(where)
        }


@dataclass
class Told(Channel):
    """Texts that were collected during a run: output of verbs, notices, requests."""

    told: list[tuple[str, bytes]] = field(default_factory=list)

    def add(self, where: str, text: str | bytes) -> None:
        self.told.append((where, text.encode() if isinstance(text, str) else text))

    def texts(self) -> Iterator[tuple[str, bytes]]:
        yield from self.told


@dataclass
class Files(Channel):
    """The content and the names of files below folders."""

    tops: Iterable[Path]
    which: Callable[[Path], bool] = lambda path: True

    def texts(self) -> Iterator[tuple[str, bytes]]:
        for top in self.tops:
            for path in sorted(top.rglob("*")):
                with suppress(OSError):  # it may end meanwhile
                    if self.which(path) and path.is_file() and path.stat().st_size <= _LARGEST:
                        yield str(path), str(path).encode() + b"\n" + self.content(path)

    def content(self, path: Path) -> bytes:
        return path.read_bytes()


class Archives(Files):
    """Backups that are not encrypted, decompressed."""

    def content(self, path: Path) -> bytes:
        data = path.read_bytes()
        with suppress(zstandard.ZstdError):
            return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()
        return data


def open_to_others(path: Path) -> bool:
    """Whether the mode lets every account read a file."""
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) and bool(mode & stat.S_IROTH)


@dataclass
class Options(Channel):
    """A key of the configuration of every container: notes, tags."""

    key: str
    containers: Callable[[], Mapping[int, Mapping[str, Any]]]

    def texts(self) -> Iterator[tuple[str, bytes]]:
        for vmid, config in self.containers().items():
            yield str(vmid), str(config.get(self.key, "")).encode()


@dataclass
class Processes(Channel):
    """A file of every process in /proc, ``cmdline`` or ``environ``, read again and again during a run.

    A place is the uid of the process, whether it has a variable of the person, and its command line. Processes that
    end between two looks are not seen, so a test that starts Paddock in its own process also records every argument of
    subprocess.Popen.
    """

    file: str
    seen: dict[tuple[str, bytes], None] = field(default_factory=dict)
    looks: int = 0

    def texts(self) -> Iterator[tuple[str, bytes]]:
        yield from list(self.seen)  # a thread may be adding to it

    def look(self) -> None:
        self.looks += 1
        own = str(os.getpid())
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and entry.name != own:
                with suppress(OSError):
                    command = Path(entry.path, "cmdline").read_bytes()
                    data = command if self.file == "cmdline" else Path(entry.path, self.file).read_bytes()
                    whose = PERSON if PERSON.encode() in data else ""
                    shown = command.replace(b"\0", b" ").decode(errors="replace")
                    self.seen[f"uid {entry.stat().st_uid} {whose}: {shown}", data] = None


@dataclass
class Grep(Channel):
    """Files that GNU grep searches, on any machine. The patterns go through its standard input.

    ``run`` gets a command and its input, and returns its output; ``where`` are files and folders.
    """

    run: Callable[[list[str], bytes], bytes]
    where: Sequence[str]

    def find(self, canaries: Canaries) -> set[tuple[str, str]]:
        patterns = {form: kind for kind, found in canaries.patterns().items() for form in found}
        # With -z a record ends at a NUL byte, so that binary files have short ones.
        options = ["grep", "-rsazoF", "--with-filename", "--null", "--devices=skip", "-f", "-"]
        words = self.run([*options, *self.where], b"\n".join(patterns) + b"\n").split(b"\0")
        hits = zip(words[::2], words[1::2], strict=False)
        return {
            (patterns[form], path.decode(errors="replace"))
            for path, form in hits
            if patterns[form] not in self.allowed(path.decode(errors="replace"))
        }

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Yield the places alone: their content stays where it is."""
        yield from ((where, b"") for where in self.where)


@dataclass
class Disks(Channel):
    """Images of disks, byte by byte: also what was deleted in them. Holes are left out."""

    images: Callable[[], Iterable[Path]]

    def texts(self) -> Iterator[tuple[str, bytes]]:
        yield from ((str(image), b"") for image in self.images())

    def find(self, canaries: Canaries) -> set[tuple[str, str]]:
        patterns = {form: kind for kind, found in canaries.patterns().items() for form in found}
        hits = {(form, str(image)) for image in self.images() for form in _in_image(image, patterns)}
        return {(patterns[form], where) for form, where in hits if patterns[form] not in self.allowed(where)}


def _in_image(image: Path, patterns: Iterable[bytes]) -> list[bytes]:
    with NamedTemporaryFile() as file:
        file.write(b"\n".join(patterns) + b"\n")
        file.flush()
        with subprocess.Popen(["grep", "-azoF", "-f", file.name], stdin=PIPE, stdout=PIPE) as grep:
            assert grep.stdin
            assert grep.stdout
            for part in _data_of(image):
                grep.stdin.write(part)
            grep.stdin.close()
            return grep.stdout.read().split(b"\0")[:-1]


def _data_of(image: Path) -> Iterator[bytes]:
    """Yield the data of a sparse file without its holes."""
    with image.open("rb", buffering=0) as file:
        at, size = 0, image.stat().st_size
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return  # the rest is a hole
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            os.lseek(file.fileno(), at, os.SEEK_SET)
            while at < end and (part := file.read(min(1 << 20, end - at))):
                at += len(part)
                yield part


@contextmanager
def watched(*channels: Processes, pause: float = 0.02) -> Iterator[None]:
    """Look at all processes during the block, and once more at its end."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            for channel in channels:
                channel.look()
            time.sleep(pause)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for channel in channels:
            channel.look()


def table(rows: Mapping[str, Mapping[str, Channel]], canaries: Canaries) -> str:
    """Return how much was searched on each channel of each shape, and how many hits there were."""
    lines = [f"{'shape':18} {'channel':22} {'places':>6} {'KiB':>8} {'hits':>4}"]
    for shape, channels in rows.items():
        for channel in channels.values():
            sizes = [len(data) for _, data in channel.texts()]
            hits = len(channel.find(canaries))
            lines.append(f"{shape:18} {channel.name:22} {len(sizes):6} {sum(sizes) / 1024:8.0f} {hits:4}")
    return "\n".join(lines)
