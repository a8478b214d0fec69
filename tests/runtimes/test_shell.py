"""Scripts and their libraries: the loader, and the form that every script has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

import paddock
from paddock.runtimes import sent

PACKAGE = Path(paddock.__file__).parent
FOLDER = PACKAGE / "onboard/shell"
FILES = sorted(PACKAGE.rglob("*.sh"))
LIBRARIES = [path for path in FILES if "# Library: " in path.read_text()]
SCRIPTS = [path for path in FILES if path not in LIBRARIES]


def name_of(path: Path) -> str:
    return str(path.relative_to(FOLDER)) if path.is_relative_to(FOLDER) else path.name


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
    assert sent.script("code/packages.sh", ["a b"]) == ["sh", "-c", sent.text("code/packages.sh"), "paddock", "a b"]


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
def test_a_script_that_reports_ends_its_report(path: Path) -> None:
    text = sent.text(name_of(path))
    assert not re.search(r"^\s*\. \.", text, re.MULTILINE), "a library would be read from the machine's disk"
    reports = "# Output: a report" in text
    assert reports == ("exec 3>&1 1>&2" in text)
    assert reports == text.endswith("\nreport end ok\n")


def test_every_library_is_used() -> None:
    used = {name for path in FILES for name in re.findall(r"^\. \./(\S+)$", path.read_text(), re.MULTILINE)}
    assert used == {name_of(path) for path in LIBRARIES}
