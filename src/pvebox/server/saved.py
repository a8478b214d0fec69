"""Dicts that are saved in a file at every change, at a cost that does not depend on their size."""

from __future__ import annotations

import json
import threading
from collections import UserDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, astuple, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Json = Any


def _as_they_are(key: Any, data: Json) -> tuple[Any, Json]:
    return key, data


class SavedDict(UserDict[K, V]):
    """A dict that passes each change to a function: the key and its value, or None if the key was deleted.

    Iterating over it is not safe while another thread changes it. `list` and `snapshot` are.
    """

    def __init__(self, save: Callable[[K, V | None], None], entries: Mapping[K, V]) -> None:
        super().__init__()
        self.data.update(entries)
        self._save = save
        self._lock = threading.Lock()

    def __setitem__(self, key: K, value: V) -> None:
        with self._lock:
            super().__setitem__(key, value)
            self._save(key, value)

    def __delitem__(self, key: K) -> None:
        with self._lock:
            super().__delitem__(key)
            self._save(key, None)

    def snapshot(self) -> list[V]:
        """Return the values of this moment."""
        return list(self.data.values())


class SaveFile:
    """A file with a line for every change of some dicts. The last line about a key counts.

    The line is in the file before a change returns, so that the change survives a SIGKILL of this process.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._loaded: dict[str, dict[Any, Json]] = {}
        if path is not None and path.exists():
            self._load(path)
            self._shorten(path)

    def table(self, name: str, decode: Callable[[Any, Json], tuple[K, V]] = _as_they_are) -> SavedDict[K, V]:
        """Return the dict of this name, with the entries that the file has.

        Keys and values are dataclasses or JSON. `decode` returns key and value of an entry: it gets a dataclass that
        is a key as a tuple, and one that is a value as a dict.
        """

        def save(key: K, value: V | None) -> None:
            self._append(json.dumps([name, _plain_key(key), _plain(value)]) + "\n")

        return SavedDict(save, dict(decode(key, data) for key, data in self._loaded.pop(name, {}).items()))

    def _append(self, line: str) -> None:
        if self._path is not None:
            with self._lock, self._path.open("a", encoding="utf-8") as file:
                file.write(line)

    def _load(self, path: Path) -> None:
        # The text after the last newline is a line that was cut off when the machine crashed.
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            name, listed, data = json.loads(line)
            key = tuple(listed) if isinstance(listed, list) else listed
            entries = self._loaded.setdefault(name, {})
            if data is None:
                entries.pop(key, None)
            else:
                entries[key] = data

    def _shorten(self, path: Path) -> None:
        """Rewrite the file with one line for each entry."""
        temporary = path.with_suffix(".new")
        with temporary.open("w", encoding="utf-8") as file:
            for name, entries in self._loaded.items():
                file.writelines(json.dumps([name, key, data]) + "\n" for key, data in entries.items())
        temporary.replace(path)


def _plain_key(key: Any) -> Json:
    return astuple(key) if is_dataclass(key) and not isinstance(key, type) else key


def _plain(value: Any) -> Json:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
