"""The doctest for a shell finds what is wrong in a page, and every command of the executed pages has a row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import shell_doc
from shell_doc import ROOT, Shell, blocks, masked, matches, run_stage, table

TABLE = table()
PAGES = [page for page in TABLE["pages"] if (ROOT / page).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_with_commands_has_a_row_that_names_its_stage_or_a_reason(page: str) -> None:
    rows = TABLE["pages"][page]
    assert [block.name for block in blocks(page)] == list(rows)
    for name, row in rows.items():
        assert len(row.keys() & {"stage", "not_run", "played_by"}) == 1, name
        assert row.get("stage", "") in {"", *TABLE["stages"]}, name
        assert (ROOT / row.get("played_by", "tests")).exists(), name


def test_the_executed_pages_are_those_that_people_follow() -> None:
    assert {"README.md", "docs/operations.md", "docs/tutorial.md"} == TABLE["pages"].keys()


@pytest.mark.parametrize("stage", list(TABLE["stages"]))
def test_the_test_of_a_stage_runs_it(stage: str) -> None:
    assert re.search(rf'run_stage\(\s*"{stage}"', (ROOT / TABLE["stages"][stage]).read_text())


@pytest.mark.parametrize(
    ("said", "printed", "same"),
    [
        (["hermes: 15 files, 305 KiB"], ["hermes: 9 files, 1.5 MiB"], True),
        (["hermes: 15 files, 305 KiB"], ["hermes: 9 folders, 1.5 MiB"], False),
        (["  ✓ stop hermes  0.9 s"], ["  ✓ stop hermes  1 min"], True),
        (["create pet 100"], ["create pet 217"], True),
        (["runs with 0.18.2"], ["runs with 0.19.0"], False),
        (["the gate code is 7421"], ["the gate code is 7422"], False),
        (["a", "…", "z"], ["a", "b", "c", "z"], True),
        (["a", "…"], ["b"], False),
        (["…: one of them"], ["x: one of them"], True),
        ([], ["something"], False),
        (["agent   backup", "hermes  2026-11-16T06-17-32Z"], ["agent  backup", "hermes  2027-01-01T00-00-00Z"], True),
    ],
)
def test_lines_are_compared_apart_from_what_differs_between_runs(
    said: list[str], printed: list[str], same: bool
) -> None:
    assert matches(said, printed) is same


def test_a_mask_keeps_what_a_reader_relies_on() -> None:
    assert masked("hermes: restored from backup 2026-11-16T06-17-32Z, and works") == (
        "hermes: restored from backup TIME, and works"
    )


PAGE = """# Page

## Run it

```console
$ export GREETING=hello
$ cd folder
$ echo "$GREETING"; pwd; echo aside >&2
hello
folder
$ printf 'Go on? [y/N]: '; read answer; echo "you said $answer"
Go on? [y/N]: y
you said y
$ seq 4
1
…
4
```

```sh
test "$GREETING" = hello    # a later block has the same shell
```
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "tests/documented.yaml").write_text(
        "stages: {s: x}\npages: {page.md: {Run it 1: {stage: s}, Run it 2: {stage: s}}}\n"
    )
    monkeypatch.setattr(shell_doc, "ROOT", tmp_path)
    monkeypatch.setattr(shell_doc, "TABLE", tmp_path / "tests/documented.yaml")
    monkeypatch.delenv("PADDOCK_GOLDEN", raising=False)
    return tmp_path / "page.md"


def shell(page: Path) -> Shell:
    return Shell(page.parent, {"PATH": "/usr/bin:/bin"}, ((f"{page.parent}/", ""),))


def test_a_true_page_passes(page: Path) -> None:
    run_stage("s", shell(page))


@pytest.mark.parametrize(
    ("old", "new"),
    [("\nhello\n", "\ngoodbye\n"), ("you said y", "you said n"), ("= hello ", "= goodbye "), ("\n4\n", "\n5\n")],
)
def test_a_page_with_a_mistake_fails(page: Path, old: str, new: str) -> None:
    page.write_text(PAGE.replace(old, new))
    with pytest.raises(AssertionError, match=r"page\.md, Run it"):
        run_stage("s", shell(page))


def test_golden_write_rewrites_only_what_differs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page.write_text(PAGE.replace("\nhello\n", "\ngoodbye\n").replace("you said y\n", ""))
    monkeypatch.setenv("PADDOCK_GOLDEN", "write")
    run_stage("s", shell(page))
    assert page.read_text() == PAGE
