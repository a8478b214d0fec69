"""Every key of the file, in every shape: `check` refuses it, or it changes something that leaves Paddock.

tests/data/keys.yaml has a row for each key: a value, and the name of the observable that the value changes.
observables.py has the observables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from keys import schema
from keys.observables import OBSERVABLES, Case
from keys.shapes import Shape, every_shape
from keys.table import Row, rows
from keys.world import World
from paddock.base.errors import BadInput, PaddockError
from paddock.file.load import Loaded, _checked
from paddock.file.tree import Tree
from paddock.kinds import KINDS

ROWS = rows()


def accepted(file: dict[str, Any], folder: Path | None = None) -> Loaded | str:
    """Return the file as `check` accepts it, or what `check` says against it."""
    try:
        spec, tree = _checked(Tree(file), folder, KINDS)
        return Loaded(spec, (folder or Path()) / "paddock.yaml", tree, KINDS)
    except BadInput as error:
        return error.message


SHAPES = {shape.name: shape for shape in every_shape() if isinstance(accepted(shape.file), Loaded)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("keys")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield World(folder, patch)


@pytest.mark.parametrize("name", SHAPES)
def test_every_key_is_refused_or_carried_out(name: str, world: World) -> None:
    shape, befores = SHAPES[name], dict[str, Any]()
    wrong: list[str] = []
    for key in sorted(schema.keys(shape.kind)):
        found = [row for row in rows_about(key) if shape.has(row.only)]
        if not found:
            wrong.append(f"{'.'.join(key)} has no row: add one with a value and with the observable that shows it")
        for row in found:
            if problem := _problem(row, shape, world, befores):
                wrong.append(f"{row.key}: {problem}")
    assert not wrong, f"{len(wrong)} keys of {name}:\n" + "\n".join(wrong)


@cache
def rows_about(key: schema.Key) -> list[Row]:
    return [row for row in ROWS if row.covers(key)]


def _problem(row: Row, shape: Shape, world: World, befores: dict[str, Any]) -> str | None:
    """Return why a key is neither refused nor carried out in a shape."""
    before, after = row.files(shape)
    loaded, sentence = accepted(after, world.folder), row.sentence(shape)
    if isinstance(loaded, str):
        if sentence and sentence in loaded:
            return None
        return f"`check` says {loaded!r}, and the table expects {sentence or 'no refusal'!r}"
    if sentence:
        return f"`check` accepts it, and the table expects {sentence!r}"
    name = json.dumps([row.shows, before], default=str)
    try:
        if name not in befores:
            base = accepted(before, world.folder)
            assert isinstance(base, Loaded), f"the keys beside {row.key} are wrong: {base}"
            befores[name] = _observed(row.shows, base, world)
        found = _observed(row.shows, loaded, world)
    except PaddockError as error:
        return f"`check` accepts it, and `{row.shows}` fails: {error.message}"
    if found == befores[name]:
        return f"is accepted, and `{row.shows}` does not change with {row.value!r}: carry it out, or refuse it"
    return None


def _observed(name: str, loaded: Loaded, world: World) -> Any:
    with Case.of(loaded, world) as case:
        return OBSERVABLES[name](case)


def test_every_row_is_about_a_key_of_the_file() -> None:
    known = {key for kind in KINDS for key in schema.keys(kind)}
    assert [row.key for row in ROWS if not any(row.covers(key) for key in known)] == []


def test_the_shapes_are_these() -> None:
    assert [name.removeprefix("hermes ") for name in SHAPES if name.startswith("hermes ")] == [
        "proxmox systemd",
        "proxmox docker base",
        "proxmox docker image",
        "proxmox podman base",
        "proxmox podman image",
        "host system systemd",
        "host system docker base",
        "host system docker image",
        "host system podman base",
        "host system podman image",
        "host user systemd",
        "host user podman base",
        "host user podman image",
        "host here process",
    ]
    assert {shape.kind for shape in SHAPES.values()} == set(KINDS)


def test_a_key_without_a_row_and_an_ignored_value_are_told(world: World) -> None:
    """The test of the table itself: it cannot pass for a key that does nothing."""
    shape = SHAPES["hermes proxmox systemd"]
    assert [row for row in ROWS if row.covers(("agents", "*", "new_key"))] == []
    ignored = _problem(Row("verify.prompt", "Say yes.", "files"), shape, world, {})
    assert ignored == ("is accepted, and `files` does not change with 'Say yes.': carry it out, or refuse it")
    unexpected = _problem(Row("runtime", "podman", "files"), shape, world, {})
    assert unexpected
    assert "the table expects 'no refusal'" in unexpected
