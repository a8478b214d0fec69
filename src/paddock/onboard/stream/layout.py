"""The names and the manifest of a stream. Both ends use this module, and it also runs on machines without Paddock."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

FORMAT = 1
FORMAT_WITH_HOLES = 2  # of a stream with files whose holes are not hashed
HOLES = "PADDOCK.holes"  # says so in the header of such a file
PREFIX = "state/"
MANIFEST = "manifest.json"
BLOCK = 1 << 20
DEEPEST = 200  # levels of folders; each level needs an open file
MOST_REPORTED = 200  # entries of the lists of what was left out; an agent could fill them
LONGEST_REPORTED = 200  # characters of a path there
HEADERS = 1 << 20  # most bytes of the headers of one entry
MOST_ENTRIES = 1_000_000
MOST_NAMES = 128 << 20  # characters of all paths and targets of links
LONGEST_MANIFEST = 512 << 20
FILLER = b" "  # where a tar usually has zeros
PASSES = 5  # how often a file that keeps changing is sent again

Json = dict[str, Any]

# A header of a tar, and in it: name, target of a link, user, group, and the beginning of a long name.
_HEADER = 512
_TEXTS = ((0, 100), (157, 257), (265, 297), (297, 329), (345, 500))
_CHECKSUM = slice(148, 156)
_MODE = re.compile("[0-7]{1,4}")
_HASH = re.compile("[0-9a-f]{64}")
_NO_HASH = "0" * 64
_OF_ALL: dict[str, type] = {"path": str, "mode": str, "owner": str, "group": str, "mtime": int}
_OF_TYPE: dict[str, dict[str, type]] = {"file": {"size": int, "sha256": str}, "link": {"target": str}, "folder": {}}
_REPEATED = ("type", "mode", "owner", "group")
_VALUES_OF_ENTRY = 12  # at most, with those in the lists beside the entries
_MORE_VALUES = 10_000

# A string, the beginning of another value, or a quote that begins no complete string.
_VALUE: re.Pattern[bytes] | None
try:
    _VALUE = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{,]|"', re.DOTALL)
except re.error:  # before Python 3.11, where this takes the square of the time; `receive` has a limit of memory too
    _VALUE = None


class BadStream(Exception):
    """The stream cannot be used: it is truncated, damaged, or not a stream of a state."""


def parts_of(path: str) -> list[str]:
    """Return the folders and the name of a path below the state. Raise if it could lead out of the state."""
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise BadStream(f"the name {path!r} is not a path below the state")
    if len(parts) > DEEPEST:
        raise BadStream(f"the name {path[:80]!r}… has more than {DEEPEST} folders")
    return parts


def stays_inside(path: str, target: str) -> bool:
    """Return whether the target of a link, read as text, stays below the state."""
    if target.startswith("/") or not target:
        return False
    depth = path.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return False
    return True


def matcher(patterns: list[str]) -> re.Pattern[str]:
    """Return a pattern for paths: `*` stands for a part of one name, `**` for any folders, also none.

    A pattern that matches a folder matches everything in it.
    """
    written = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    tokens = re.compile(r"\*\*/|\*\*|\*|[^*]+")
    choices = ["".join(written.get(each, re.escape(each)) for each in tokens.findall(one)) for one in patterns]
    return re.compile(f"(?:{'|'.join(choices) or '(?!)'})(?:/.*)?", re.DOTALL)


def dense(headers: bytes) -> bytes:
    """Return the headers of an entry without long runs of zeros.

    restic ends a piece at each run of 64 zeros, once it has 512 KiB. With such a run in every header, the pieces of two
    streams do not meet again behind a file that has another size now. A text in a header ends at its first zero, so
    nothing reads what is behind it.
    """
    if len(headers) == _HEADER:
        return _dense_header(headers)
    extended = headers[_HEADER:-_HEADER]
    ended = extended.rstrip(b"\0") + b"\0"
    filled = ended + FILLER * (len(extended) - len(ended))
    return _dense_header(headers[:_HEADER]) + filled[: len(extended)] + _dense_header(headers[-_HEADER:])


def _dense_header(header: bytes) -> bytes:
    filled = bytearray(header)
    for start, end in _TEXTS:
        zero = filled.find(0, start, end)
        if zero >= 0:
            filled[zero + 1 : end] = FILLER * (end - zero - 1)
    filled[_CHECKSUM] = b" " * 8
    filled[_CHECKSUM] = b"%06o\0 " % sum(filled)
    return bytes(filled)


def listed_pieces(pieces: Sequence[tuple[int, int]]) -> bytes:
    """Return the list with which the content of a file with holes begins, as GNU tar writes it."""
    listed = f"{len(pieces)}\n" + "".join(f"{start}\n{length}\n" for start, length in pieces)
    return listed.encode() + bytes(-len(listed) % _HEADER)


def announcement(size: int) -> str:
    """Return what a sender says first: about how long the stream will be."""
    return f"about {size} bytes are to be sent"


def announced(said: str) -> int | None:
    """Return the length that a sender has announced. It comes from a machine, and is only good for a display."""
    found = re.search(r"^about ([0-9]{1,18}) bytes are to be sent$", said, re.MULTILINE)
    return int(found[1]) if found else None


def has_at_most(data: bytes, values: int) -> bool:
    """Return whether JSON has so few values that it can be read: ``[[],[],…`` needs forty times its size as objects."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") <= values:
        return True
    found = 0
    for value in _VALUE.finditer(data) if _VALUE else ():  # commas in strings count for nothing
        found += value[0] in (b",", b"[", b"{")
        if found > values or value[0] == b'"':
            return False
    return True


def parse_manifest(data: bytes, entries_read: int = MOST_ENTRIES) -> Json:
    """Parse a manifest. Raise if it is not one, of a newer version of Paddock, or of more entries than were read."""
    if not has_at_most(data, _MORE_VALUES + _VALUES_OF_ENTRY * entries_read):
        raise BadStream("its manifest is larger than what it describes")
    known: dict[str, str] = {}

    def sharing(entry: Json) -> Json:
        """Keep equal texts once: most owners and modes are the same."""
        return {key: known.setdefault(value, value) if key in _REPEATED else value for key, value in entry.items()}

    try:
        found: Json = json.loads(data, object_hook=sharing)
        version, entries = found["format"], found["entries"]
        known_version = version in (FORMAT, FORMAT_WITH_HOLES) and type(version) is int
        usable = not known_version or all(_is_usable(entry) for entry in entries)
    except (ValueError, KeyError, TypeError, RecursionError):
        usable = False
    if not usable:
        raise BadStream("its last entry is not a manifest")
    if not known_version:
        raise BadStream(f"it has format {str(version)[:20]!r}; this Paddock reads formats 1 and 2")
    if len({entry["path"] for entry in entries}) != len(entries):
        raise BadStream("its manifest names a file twice")
    for entry in entries:
        parts_of(entry["path"])
    return found


def _is_usable(entry: Json) -> bool:
    """Return whether an entry of a manifest has all that is needed to restore it, and nothing of another type."""
    return (
        all(type(entry[key]) is wanted for key, wanted in (_OF_ALL | _OF_TYPE[entry["type"]]).items())
        and _MODE.fullmatch(entry["mode"]) is not None
        and abs(entry["mtime"]) < 1 << 40
        and _HASH.fullmatch(entry.get("sha256", _NO_HASH)) is not None
    )
