"""Dicts that are saved at every change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pvebox.runtime.contract import Volume, VolumeRef
from pvebox.server.saved import SavedDict, SaveFile


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "saved.jsonl"


def numbers(file: Path) -> SavedDict[Any, int]:
    return SaveFile(file).table("numbers")


def test_changes_are_in_the_file_at_once(file: Path) -> None:
    saved = numbers(file)
    saved["one"] = 1
    saved.update({"two": 2, ("a", "tuple"): 3})
    saved["one"] = 10
    del saved["two"]
    assert dict(numbers(file)) == {"one": 10, ("a", "tuple"): 3}


def test_tables_of_one_file_do_not_mix(file: Path) -> None:
    both = SaveFile(file)
    names: SavedDict[str, str] = both.table("names")
    figures: SavedDict[str, int] = both.table("figures")
    names["x"], figures["x"] = "ex", 24
    again = SaveFile(file)
    assert dict(again.table("figures")) == {"x": 24}
    assert dict(again.table("names")) == {"x": "ex"}


def test_dataclasses_are_saved_with_all_their_fields(file: Path) -> None:
    ref = VolumeRef("pve", "local-lvm", "vm-100-disk-0")
    saved: SavedDict[VolumeRef, Volume] = SaveFile(file).table("volumes")
    saved[ref] = Volume(ref, 4 << 20, 1000, formatted=False)

    def decode(key: tuple[str, str, str], data: dict[str, Any]) -> tuple[VolumeRef, Volume]:
        return VolumeRef(*key), Volume(**{**data, "ref": VolumeRef(**data["ref"])})

    assert dict(SaveFile(file).table("volumes", decode)) == dict(saved)


def test_a_change_adds_one_line_whatever_the_size(file: Path) -> None:
    saved = numbers(file)
    for number in range(300):
        saved[number] = number
    before = file.read_text()
    saved[7] = 0
    assert file.read_text() == f'{before}["numbers", 7, 0]\n'


def test_a_line_that_was_cut_off_is_ignored_and_removed(file: Path) -> None:
    saved = numbers(file)
    saved["one"] = 1
    with file.open("a") as torn:
        torn.write('["numbers", "tw')
    again = numbers(file)
    assert dict(again) == {"one": 1}
    again["three"] = 3
    assert dict(numbers(file)) == {"one": 1, "three": 3}


def test_an_opened_file_has_one_line_for_each_entry(file: Path) -> None:
    saved = numbers(file)
    for number in range(50):
        saved["same"] = number
    numbers(file)
    assert file.read_text() == '["numbers", "same", 49]\n'


def test_nothing_is_written_without_a_file(tmp_path: Path) -> None:
    saved: SavedDict[str, int] = SaveFile(None).table("numbers")
    saved["one"] = 1
    assert saved["one"] == 1
    assert not list(tmp_path.iterdir())
