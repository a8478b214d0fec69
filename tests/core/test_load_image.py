"""Loading an image on the machine. An archive that the engine cannot load is a failure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from paddock.base.errors import PaddockError
from paddock.channels.local import LocalGuest
from paddock.core.container import get_image
from paddock.runtimes.engine.container import AgentContainer, Image

NAME = "localhost/paddock/archive:1234"
ENGINE = """#!/bin/sh
echo "$*" >>{folder}/calls
case "$1 ${{2-}}" in
    "image inspect") exit 1 ;;
    "images --format") echo old:1 ;;
    "load " | "import -") cat >{folder}/read; {load} ;;
esac
"""


def load(folder: Path, verb: str, script: str) -> list[str]:
    """Load an archive with an engine that runs this script for it; return how the engine was called after that."""
    engine, archive = folder / "engine", folder / "image.tar"
    engine.write_text(ENGINE.format(folder=folder, load=script))
    engine.chmod(0o755)
    archive.write_text("an archive")
    image = Image(NAME, archive, [str(engine), *{"load": ["load"], "import": ["import", "-"]}[verb]])
    container = SimpleNamespace(image=image, engine=SimpleNamespace(program=str(engine)))
    try:
        get_image(LocalGuest(), cast(AgentContainer, container))
    finally:
        calls = (folder / "calls").read_text().splitlines()
        assert (folder / "read").read_text() == "an archive"
        after = calls[next(at for at, call in enumerate(calls) if call.startswith(verb)) + 1 :]
    return after


@pytest.mark.parametrize("verb", ["load", "import"])
def test_load_fails_when_the_engine_cannot_load_the_archive(tmp_path: Path, verb: str) -> None:
    with pytest.raises(PaddockError, match="unexpected EOF") as caught:
        load(tmp_path, verb, "echo unexpected EOF >&2; exit 1")
    assert caught.value.hint == "run `docker save IMAGE > FILE` again"
    assert (tmp_path / "calls").read_text().splitlines()[-1].startswith(verb), "an incomplete image got a name"


def test_an_archive_without_an_image_fails(tmp_path: Path) -> None:
    with pytest.raises(PaddockError, match="has loaded no image"):
        load(tmp_path, "load", ":")


def test_a_loaded_image_gets_its_name_and_loses_the_names_that_are_new(tmp_path: Path) -> None:
    printed = "Loaded image: old:1\\nLoaded image: new:2\\n"
    assert load(tmp_path, "load", f"printf '{printed}'") == [f"tag new:2 {NAME}", "image rm new:2"]


def test_a_loaded_image_without_a_name_is_found_by_its_id(tmp_path: Path) -> None:
    assert load(tmp_path, "load", "echo Loaded image ID: sha256:abc") == [f"tag sha256:abc {NAME}"]


@pytest.mark.parametrize("image_id", ["sha256:abc", "abc"], ids=["docker", "old-podman"])
def test_an_imported_image_keeps_its_id(tmp_path: Path, image_id: str) -> None:
    assert load(tmp_path, "import", f"echo {image_id}") == [f"tag {image_id} {NAME}"]
