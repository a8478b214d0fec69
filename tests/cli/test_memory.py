"""``paddock memory`` reads the texts of backups in a folder and in a restic repository."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyrage import x25519

from backups.saving import back_up
from cli.conftest import Paddock
from paddock.backups.repository import Repository

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
FIRST, SECOND, THIRD = (f"2026-11-1{day}T12-00-00Z" for day in (6, 7, 8))
FILE = """\
project: home
places: {{here: {{host: {{}}}}}}
agents:
  hermes: {{kind: hermes, version: 0.19.0, place: here, runtime: process, backup: {backup}}}
"""
MEMORY, SOUL = ".hermes/memories/MEMORY.md", ".hermes/SOUL.md"
HOSTILE = "the gate code is 7421\nred \x1b[31mtext\u2028.hermes/SOUL.md\n"
SAVED = (
    {SOUL: "Be brief.\n", MEMORY: "the gate code is 1000\n"},
    {SOUL: "Be brief.\n", MEMORY: HOSTILE},
    {MEMORY: HOSTILE},
)
HISTORY = [
    {"backup": FIRST, "text": SOUL, "change": "new", "added": 1, "removed": 0},
    {"backup": FIRST, "text": MEMORY, "change": "new", "added": 1, "removed": 0},
    {"backup": SECOND, "text": MEMORY, "change": "changed", "added": 2, "removed": 1},
    {"backup": THIRD, "text": SOUL, "change": "removed", "added": 0, "removed": 1},
]


@pytest.fixture
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose agent has three backups."""
    key = x25519.Identity.generate()
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(key))
    monkeypatch.setenv("REPOSITORY_PASSWORD", "a word that nobody guesses")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    backup = {
        "folder": "{to: ./backups}",
        "encrypted": f"{{to: ./backups, recipients: [{key.to_public()}]}}",
        "restic": "{to: {restic: {repository: ./repository, password: {env: REPOSITORY_PASSWORD}}}}",
    }[request.param]
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE.format(backup=backup))
    home = tmp_path / "home"
    home.mkdir()
    # A backup to restic takes seconds.
    for days, texts in enumerate(SAVED[:2] if request.param == "restic" else SAVED):
        back_up(path, home, texts, NOON + timedelta(days=days))
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.parametrize("file", ["folder", "encrypted"], indirect=True)
def test_memory_shows_lists_and_compares_the_texts_of_backups(file: Path, paddock: Paddock) -> None:
    shown = paddock("memory", "hermes")
    assert (shown.code, shown.out) == (
        0,
        f"{MEMORY}\n  the gate code is 7421\n  red \\x1b[31mtext\\u2028.hermes/SOUL.md\n",
    )
    first = json.loads(paddock("memory", "hermes", "show", FIRST, "--json").out)
    assert first == {"agent": "hermes", "backup": FIRST, "texts": SAVED[0]}
    assert [line.split() for line in paddock("memory", "hermes", "history").out.splitlines()] == [
        ["backup", "text", "change", "lines"],
        *([row["backup"], row["text"], row["change"], f"+{row['added']}", f"-{row['removed']}"] for row in HISTORY),
    ]
    newest = json.loads(paddock("memory", "hermes", "diff", "--json").out)
    assert (newest["from"], newest["to"], list(newest["texts"])) == (SECOND, THIRD, [SOUL])
    assert paddock("memory", "hermes", "diff", FIRST, SECOND).out.splitlines() == [
        f"--- {MEMORY} ({FIRST})",
        f"+++ {MEMORY} ({SECOND})",
        "@@ -1 +1,2 @@",
        "-the gate code is 1000",
        "+the gate code is 7421",
        "+red \\x1b[31mtext\\u2028.hermes/SOUL.md",
    ]
    same = paddock("memory", "hermes", "diff", SECOND, SECOND).out
    assert same == f"the texts of {SECOND} and {SECOND} are the same\n"


@pytest.mark.skipif(shutil.which("restic") is None, reason="restic is not installed")
@pytest.mark.parametrize("file", ["restic"], indirect=True)
def test_memory_reads_a_restic_repository_with_one_call_for_each_text(
    file: Path, paddock: Paddock, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    piped = Repository.piped

    def counting(self: Repository, *arguments: str) -> Any:
        calls.append(arguments[0])
        return piped(self, *arguments)

    monkeypatch.setattr(Repository, "piped", counting)
    assert json.loads(paddock("memory", "hermes", "history", "--json").out) == HISTORY[:3]
    assert calls == ["snapshots", "dump", "dump"]


@pytest.mark.parametrize("file", ["folder"], indirect=True)
def test_memory_names_what_it_does_not_find(file: Path, paddock: Paddock) -> None:
    said = paddock("memory", "hermes", "show", "2026-01-01T00-00-00Z")
    assert (said.code, said.err.splitlines()[0]) == (2, "error: hermes has no backup 2026-01-01T00-00-00Z")
    for folder in (file.parent / "backups").iterdir():
        (folder / f"{FIRST}.texts.json.zst").unlink()
    assert "the texts of backup" in paddock("memory", "hermes", "show", FIRST).err
    assert f"\n{FIRST}" not in paddock("memory", "hermes", "history").out
    assert paddock("memory", "hermes", "history", FIRST).code == 2
    shutil.rmtree(file.parent / "backups")
    said = paddock("memory", "hermes")
    assert (said.code, "`paddock backup hermes`" in said.err) == (1, True)
    without = paddock("memory", "hermes", "--set", "agents.hermes.backup=null")
    assert "hermes has no backup in the file" in without.err
