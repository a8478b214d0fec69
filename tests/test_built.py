"""What tests build once is complete, made once, and made again when its inputs change."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import built as module
from built import built


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def test_a_thing_is_built_once_for_the_same_inputs() -> None:
    made: list[Path] = []

    def build(folder: Path) -> None:
        (folder / "file").write_text("content")
        made.append(folder)

    first = built("thing", "1", build)
    assert (first / "file").read_text() == "content"
    assert built("thing", "1", build) == first
    assert built("thing", "2", build) != first
    assert len(made) == 2


def test_what_nobody_has_used_for_a_day_is_removed_when_its_inputs_change() -> None:
    old, used = (built("thing", inputs, lambda folder: None) for inputs in "12")
    for folder in (old, used):
        os.utime(folder, (0, 0))
    built("thing", "2", lambda folder: None)
    other = built("thing-else", "1", lambda folder: None)
    os.utime(other, (0, 0))
    new = built("thing", "3", lambda folder: None)
    assert [folder.exists() for folder in (old, used, other, new)] == [False, True, True, True]


def test_a_build_that_fails_leaves_nothing(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise ValueError("half built")

    with pytest.raises(ValueError, match="half built"):
        built("thing", "1", fail)
    assert [path.name for path in cache.iterdir()] == ["thing.lock"]


def test_two_at_once_build_it_once() -> None:
    made: list[Path] = []
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: built("thing", "1", made.append), range(4)))
    assert len(made) == 1
    assert len(set(found)) == 1
