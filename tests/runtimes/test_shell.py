"""Scripts and their libraries: the loader, and the form that every script has."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

import paddock
from paddock.channels import records, sent

PACKAGE = Path(paddock.__file__).parent
PYTHONS = [f"3.{minor}" for minor in range(8, 20)]
FOLDER = PACKAGE / "onboard/shell"
FILES = sorted(PACKAGE.rglob("*.sh"))
# The text of a library may also be within a script: then bundles of earlier versions have the same script.
LIBRARIES = [path for path in FILES if path.read_text().startswith("# Library: ")]
SCRIPTS = [path for path in FILES if path not in LIBRARIES]


def name_of(path: Path) -> str:
    return path.name


def header(path: Path) -> list[str]:
    """The comment at the beginning of a script."""
    lines = path.read_text().removeprefix("#!/bin/sh\n").splitlines()
    return list(takewhile(lambda line: line.startswith("#"), lines))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder in the place of the package's own."""
    monkeypatch.setattr(sent, "_SCRIPTS", tmp_path)
    sent.text.cache_clear()
    yield tmp_path
    sent.text.cache_clear()


def test_a_library_is_included_in_place_and_once(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "fail.sh").write_text("fail\n")
    (folder / "below/top.sh").write_text(". ./fail.sh\ntop\n")
    (folder / "run.sh").write_text("first\n. ./below/top.sh\n. ./fail.sh\nlast\n")
    assert sent.text("run.sh") == "first\nfail\ntop\nlast\n"


def test_libraries_that_source_each_other_are_included_once(folder: Path) -> None:
    (folder / "one.sh").write_text(". ./two.sh\none\n")
    (folder / "two.sh").write_text(". ./one.sh\ntwo\n")
    assert sent.text("one.sh") == "two\none\n"


def test_a_file_that_is_sourced_on_the_machine_stays(folder: Path) -> None:
    (folder / "run.sh").write_text('. "$here/bundle.env"\n')
    assert sent.text("run.sh") == '. "$here/bundle.env"\n'


def test_a_library_that_does_not_exist_is_an_error(folder: Path) -> None:
    (folder / "run.sh").write_text(". ./missing.sh\n")
    with pytest.raises(FileNotFoundError):
        sent.text("run.sh")


def test_an_argv_is_one_text_and_the_arguments() -> None:
    assert sent.script("packages.sh", ["a b"]) == ["sh", "-c", sent.text("packages.sh"), "paddock", "a b"]


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_a_script_names_its_arguments(path: Path) -> None:
    told = "\n".join(header(path))
    assert re.match(rf"# (\w+/)?{re.escape(path.name)} - [a-z]", told)
    arguments = re.search(r"^# Arguments: (\S+)", told, re.MULTILINE)
    assert arguments, "the comment at its beginning has no line `# Arguments:`"
    if re.fullmatch(r"[A-Z_]+", arguments.group(1)):
        assert re.search(r"^\w+=\$1\b", path.read_text(), re.MULTILINE), "its first argument gets no name"


@pytest.mark.parametrize("path", LIBRARIES, ids=name_of)
def test_a_library_names_the_variables_that_it_expects(path: Path) -> None:
    first, second, *_ = path.read_text().splitlines()
    assert first.startswith("# Library: ")
    assert second.startswith("# Expects: ")


@pytest.mark.parametrize("path", [path for path in SCRIPTS if path.is_relative_to(FOLDER)], ids=name_of)
def test_a_script_sources_nothing_from_the_disk_of_a_machine(path: Path) -> None:
    assert not re.search(r"^\s*\. \.", sent.text(name_of(path)), re.MULTILINE)


@pytest.mark.parametrize(("versions", "found"), [(["1.0", *PYTHONS], 1), (["1.0"], 0)], ids=["found", "none"])
def test_the_search_for_python_ends_its_report(versions: list[str], found: int) -> None:
    environment = {"PATH": os.environ["PATH"], "THROWAWAY": "yes"}  # nothing is installed
    argv = sent.script("packages.sh", ["python", *versions])
    printed = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout
    told = records(f"a login shell's greeting\n{printed}")
    assert [name for name, _ in told] == ["python"] * found
    for _, value in told:
        path, version, architecture, _ = value.split(" ")
        assert Path(path).is_file()
        assert (version in versions, architecture) == (True, os.uname().machine)


def test_every_library_is_used() -> None:
    used = {name for path in FILES for name in re.findall(r"^\. \./(\S+)$", path.read_text(), re.MULTILINE)}
    assert used == {name_of(path) for path in LIBRARIES}
