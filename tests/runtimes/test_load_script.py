"""Loading an image on the machine: what the engine could not load is a failure, not an image without a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.guests.local import LocalGuest
from paddock.guests.report import records
from paddock.process import Result
from paddock.runtimes.shell import script


def load(folder: Path, engine: str, verb: str) -> Result:
    program = folder / "engine"
    program.write_text(f"#!/bin/sh\n{engine}\n")
    program.chmod(0o755)
    argv = script("engine/load.sh", [str(program), verb])
    return LocalGuest().run(argv, stdin=b"an archive")


@pytest.mark.parametrize("verb", ["load", "import"])
def test_an_archive_that_cannot_be_loaded_is_a_failure(tmp_path: Path, verb: str) -> None:
    engine = f'case "$1" in {verb} | image) echo no space left on device >&2; exit 1 ;; esac'
    assert not load(tmp_path, engine, verb).ok


def test_the_id_and_the_new_names_are_reported(tmp_path: Path) -> None:
    engine = """case "$1" in
    images) echo old:1 ;;
    load) printf 'Loaded image: old:1\\nLoaded image: new:2\\n' ;;
    image) echo sha256:abc ;;
esac"""
    assert records(load(tmp_path, engine, "load").out) == [("brought", "new:2"), ("id", "sha256:abc")]
