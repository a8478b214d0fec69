"""Which texts of a state are kept beside its backup."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from onboard.streams import sent
from paddock.backups.history import Taken, from_json
from paddock.backups.verified import Verified
from paddock.onboard.stream.layout import matcher


def texts(home: Path) -> dict[str, str]:
    with Verified(io.BytesIO(sent(home)), matcher(["skills/**/SKILL.md"]), lambda count: None) as stream:
        while stream.read(1 << 20):
            pass
        stream.manifest()
        return stream.texts()


def test_a_skill_of_the_code_is_no_text_until_the_agent_changes_it(tmp_path: Path) -> None:
    for name in ("bundled", "own"):
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(f"{name}\n")
    bundled = tmp_path / "skills/bundled/SKILL.md"
    os.utime(bundled, (0, 0))  # as in a code tree, and in a copy of it
    assert texts(tmp_path) == {"skills/own/SKILL.md": "own\n"}
    bundled.write_text("changed\n")
    assert texts(tmp_path) == {"skills/bundled/SKILL.md": "changed\n", "skills/own/SKILL.md": "own\n"}


def test_many_texts_of_holes_take_little_memory() -> None:
    taken, zeros = Taken(matcher(["*.md"])), bytes(256 << 10)
    for number in range(1000):  # 250 MiB, which take no room on the agent's disk
        header = tarfile.TarInfo(f"{number}.md")
        header.size, header.mtime = len(zeros), 1
        if write := taken.take(header.name, header):
            write(zeros)
    assert len(json.dumps(taken.texts())) <= 64 << 20


def test_texts_are_limited_in_number() -> None:
    taken = Taken(matcher(["*.md"]))
    header = tarfile.TarInfo()
    header.mtime = 1
    for number in range(10_100):
        taken.take(f"{number}.md", header)
    assert len(taken.texts()) == 10_000


def test_texts_come_back_from_their_json() -> None:
    texts = {"SOUL.md": 'a "quote", [x] {y} \\ and \u2028', "b.md": "東京"}
    assert from_json(io.BytesIO(json.dumps(texts).encode())) == texts
    assert from_json(io.BytesIO(json.dumps({"about": {"files": 1}, "texts": texts}).encode()), "texts") == texts


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"a": {"b": "c"}}', '{"a": "', "[" * 100_000, "\xff"])
def test_json_that_is_no_texts_is_none(text: str) -> None:
    assert from_json(io.BytesIO(text.encode("latin-1"))) is None


BOMBS = {
    "lists": '"[" + "[]," * (20 << 20) + "[]]"',
    "keys": '"{" + ",".join(f\'"{n}":""\' for n in range(3 << 20)) + "}"',
    "numbers": '"[" + "1.5," * (12 << 20) + "0]"',
    "depth": '"[" * (60 << 20)',
    "escaped quotes": "'{\"' + chr(92) + '\"' + (chr(92) + '\"') * (20 << 20)",
    "size": '\'{"a":"\' + "x" * (70 << 20) + \'"}\'',
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_hostile_json_takes_little_memory_and_time(bomb: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.json"
    file.write_text(eval(BOMBS[bomb]))
    program = (
        "import sys; from paddock.backups.history import from_json; assert from_json(open(sys.argv[1], 'rb')) is None"
    )
    most = 300 << 20
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
