"""Guard the plain English of docstrings, comments, messages, test names and documentation.

The patterns are constructions that made earlier texts hard to read, and names that were replaced.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[1]
# A record of earlier versions, in the words of their time.
NOT_CHECKED: Final = ("CHANGELOG.md",)


class Banned(NamedTuple):
    """A pattern that no text may contain."""

    pattern: str
    example: str  # a text that the pattern matches
    instead: str


BANNED: Final = (
    # Clauses where a noun should be
    Banned(
        r"(^|[.:;(] )[Oo]f what\b", "Of what was started the first processes", "name the things: the processes that"
    ),
    Banned(r"\bthat which\b", "That which fails is taken back", "name the thing"),
    Banned(r"\bwhat is there\b", "adopts what is there", "name it: the existing container, the existing files"),
    Banned(r"\bwhat there is\b", "reads what there is to read", "name what is read"),
    Banned(
        r"\bwhat (was|is) installed in \w+ goes\b", "what was installed in it goes", "software installed in it is lost"
    ),
    Banned(r"\bwhat stands against\b", "What stands against a container", "why the container cannot be created"),
    Banned(r"\bwith what comes\b", "Go on with what comes.", "keep printing new lines"),
    Banned(r"\bone's\b", "Wait for one's turn", "name who: the run, the user"),
    # Personification and mottos
    Banned(r"\bchange[sd]? (its|their) mind", "until the file changes its mind", "until the file is changed back"),
    Banned(r"\btwo masters\b", "nothing has two masters", "it already belongs to another agent"),
    Banned(r"\b(goes|go) and comes?\b", "the machine goes and comes", "the machine is recreated"),
    Banned(r"\bis a sentence\b", "an image without a shell is a sentence", "is rejected with an error message"),
    # Vague results
    Banned(r"\banew\b", "make the container anew", "recreate the container; again"),
    Banned(r"\bnot as it should be\b", "is not as it should be in 2 of 31", "2 of 31 checks failed"),
    Banned(
        r"\bnot seen to answer\b",
        "it was not seen to answer since it was changed",
        "not verified since the last change",
    ),
    Banned(r"\bfor machines\.$", "For machines.", "print JSON"),
    # Names that were replaced
    Banned(r"\bin force\b", "the configuration in force", "the current bundle"),
    Banned(r"\bgenerations?\b", "a link to the generation", "bundle"),
    Banned(r"\bfurnish|\bfurniture", "furnish the template", "install the template contents"),
    Banned(r"\bwitness", "witness the bundle", "record_verified: record that the agent was verified"),
    Banned(r"\bcomforts?\b", "its comforts", "recommended packages"),
    Banned(r"\bportra(y|it)", "portray the container", "describe"),
    Banned(r"\bmanners\b", "the manners of an image", "image contract"),
    Banned(r"\btrail\b", "known by its trail", "state link"),
    Banned(r"\bthe story\b", "named in the story", "progress, or the reporter"),
)


@pytest.mark.parametrize("banned", BANNED, ids=lambda banned: banned.pattern)
def test_each_pattern_matches_its_example(banned: Banned) -> None:
    assert re.search(banned.pattern, banned.example, re.IGNORECASE)


def test_names_of_tests_have_at_most_80_characters() -> None:
    found = {name for path in (ROOT / "tests").rglob("test_*.py") for name in _long_names(path.read_text())}
    assert not found


def test_a_longer_name_of_a_test_is_found() -> None:
    longest, longer = "test_".ljust(80, "x"), "test_".ljust(81, "x")
    for define in ("def", "    async def"):
        assert _long_names(f"{define} {longest}() -> None:\n{define} {longer}() -> None:\n") == [longer]


def _long_names(source: str) -> list[str]:
    return re.findall(r"^ *(?:async )?def (test_\w{76,})", source, re.MULTILINE)


@pytest.mark.parametrize("kind", ["py", "sh", "md"])
def test_no_text_uses_a_banned_construction(kind: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0].strip()!r}, write instead: {banned.instead}"
        for path in _files(kind)
        for line, text in _texts(path)
        for banned in BANNED
        if (match := re.search(banned.pattern, text, re.IGNORECASE))
    ]
    assert not found, "\n" + "\n".join(found)


def _files(kind: str) -> Iterator[Path]:
    for top in ("src", "tests", "docs"):
        yield from (path for path in sorted((ROOT / top).rglob(f"*.{kind}")) if _is_checked(path))
    yield from (path for path in sorted(ROOT.glob(f"*.{kind}")) if _is_checked(path))


def _is_checked(path: Path) -> bool:
    relative = path.relative_to(ROOT)
    return path != Path(__file__) and not any(relative.is_relative_to(prefix) for prefix in NOT_CHECKED)


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each text of a file with its line, as one line."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from _paragraphs(source)
        return
    yield from _comments(source)
    if path.suffix == ".sh":
        for match in re.finditer(r'"([^"\n]* [^"\n]*)"', source):
            yield source.count("\n", 0, match.start()) + 1, match[1]
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=str(text)):
                yield node.lineno, " ".join(text.split())
            case ast.FunctionDef() | ast.ClassDef():  # names of tests are texts too
                yield node.lineno, node.name.replace("_", " ")


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield each comment. A comment of several lines is one text."""
    block: list[str] = []
    lines = source.split("\n")
    for number, line in enumerate([*lines, ""]):
        whole = re.match(r"\s*#\s?(.*)", line)
        if whole:
            block.append(whole[1])
            continue
        if block:
            yield number - len(block) + 1, " ".join(block)
            block = []
        if after := re.search(r"  # (.*)", line):
            yield number + 1, after[1]


def _paragraphs(source: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs, list items and table rows of a Markdown file, without their marks."""
    number = 1
    for paragraph in re.split(r"\n(?=\s*\n|\s*[-*|] )", source):
        words = " ".join(re.sub(r"(?m)^\s*(#+|[-*|])\s", "", paragraph).split())
        blank = len(paragraph) - len(paragraph.lstrip("\n"))
        yield number + blank, words
        number += paragraph.count("\n") + 1
