"""The pictures of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

ROOT: Final = Path(__file__).parents[1]
PICTURES: Final = sorted((ROOT / "docs/pictures").glob("*.svg"))
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SVG: Final = "{http://www.w3.org/2000/svg}"


def test_the_pictures_of_the_script_are_there() -> None:
    assert {path.name for path in PICTURES} == {"run.svg", "progress.svg", "timings.svg"}


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_whole_and_says_what_it_is_and_loads_nothing(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    assert root.attrib["role"] == "img"
    assert all(root.findtext(f"{SVG}{name}", "").strip() for name in ("title", "desc"))
    assert len(root.findall(f"{SVG}text")) > 10, "the picture is nearly empty"
    text = path.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|url\(|@import|@font-face|<script|<image|href", text)


@pytest.mark.parametrize("name", ["run", "progress"])
def test_a_picture_of_a_terminal_keeps_its_columns_without_style_sheets(name: str) -> None:
    root = ElementTree.parse(ROOT / f"docs/pictures/{name}.svg").getroot()
    assert root.attrib["{http://www.w3.org/XML/1998/namespace}space"] == "preserve"


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_of_a_run_shows_no_failure_and_nothing_of_its_machine(path: Path) -> None:
    texts = "\n".join(each.text or "" for each in ElementTree.parse(path).getroot().iter(f"{SVG}text"))
    assert not re.search(r"✗|error:|, failed|cut off|/tmp/|/home/|/root/|pvebox-stage", texts, re.MULTILINE)


def test_the_readme_and_the_site_show_the_pictures_with_a_text_in_their_place() -> None:
    shown: dict[str, set[Path]] = {}
    for page in PAGES:
        for said, target in re.findall(r"!\[([^\]]*)\]\(([^)]+\.svg)\)", page.read_text()):
            assert len(said.split()) >= 4, f"{page.name}: {target} has no text"
            assert (page.parent / target).is_file(), f"{page.name}: {target}"
            shown.setdefault(Path(target).name, set()).add(page)
    assert all(ROOT / "README.md" in shown[name] for name in ("run.svg", "timings.svg"))
    for path in PICTURES:
        assert any(page.parent.name == "docs" for page in shown[path.name])


def test_the_readme_opens_with_the_picture_of_a_run() -> None:
    opening = (ROOT / "README.md").read_text().split("\n## ")[0]
    assert "(docs/pictures/run.svg)" in opening
