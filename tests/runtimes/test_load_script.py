"""Loading an image on the machine. An archive that the engine cannot load is a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.base.process import Result
from paddock.channels import records
from paddock.channels.local import LocalGuest
from paddock.runtimes.sent import script


def load(folder: Path, engine: str, verb: str) -> Result:
    program = folder / "engine"
    program.write_text(f"#!/bin/sh\n{engine}\n")
    program.chmod(0o755)
    argv = script("image/load.sh", [str(program), verb])
    return LocalGuest().run(argv, stdin=b"an archive")


@pytest.mark.parametrize("verb", ["load", "import"])
def test_load_fails_when_the_engine_cannot_load_the_archive(tmp_path: Path, verb: str) -> None:
    engine = f'case "$1" in {verb} | image) echo no space left on device >&2; exit 1 ;; esac'
    assert not load(tmp_path, engine, verb).ok


def test_load_reports_the_id_and_the_names_that_are_new(tmp_path: Path) -> None:
    engine = """case "$1" in
    images) echo old:1 ;;
    load) printf 'Loaded image: old:1\\nLoaded image: new:2\\n' ;;
    image) echo sha256:abc ;;
esac"""
    assert records(load(tmp_path, engine, "load").out) == [("brought", "new:2"), ("id", "sha256:abc")]
