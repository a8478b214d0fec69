"""./test itself: options that are gone, tests of the other level, marks, and the removal of what it keeps."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run_test(*words: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.run([ROOT / "test", *words], env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--quick"], "error: --quick is gone. Without it, ./test is quick now.\n"),
        (["-x", "tests/live/test_drill.py"], "error: the tests in tests/live are for ./test --all.\n"),
        (["tests/file", "tests/sandbox/live"], "error: the tests in tests/sandbox/live are for ./test --all.\n"),
    ],
)
def test_words_that_cannot_work_are_told(words: list[str], sentence: str, tmp_path: Path) -> None:
    done = run_test(*words, cache=tmp_path)
    assert (done.returncode, done.stderr) == (2, sentence)
    assert not list(tmp_path.iterdir())


def test_the_mark_hostile_selects_the_attacks_in_any_folder() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", "-m", "hostile"]
    folders = ["tests/onboard", "tests/sandbox/hostile", "tests/onboard"]
    said = subprocess.run([*command, *folders], cwd=ROOT, capture_output=True, text=True, timeout=120).stdout
    found = {line.partition("[")[0] for line in said.split("\n") if "::" in line}
    assert "tests/onboard/test_unzip.py::test_a_hostile_name_is_refused" in found
    assert {each.partition("::")[0] for each in found} == {
        "tests/onboard/test_unzip.py",
        "tests/sandbox/hostile/test_archives.py",
        "tests/sandbox/hostile/test_paths.py",
        "tests/onboard/test_hostile.py",
    }
    assert all("hostile" in each for each in found)


def test_clean_removes_what_was_built_unless_a_run_uses_it(tmp_path: Path) -> None:
    kept = tmp_path / "paddock-tests/thing"
    kept.mkdir(parents=True)
    (tmp_path / "pvebox").mkdir()
    (tmp_path / "others").mkdir()
    with (tmp_path / "paddock-tests/in-use.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        refused = run_test("--clean", cache=tmp_path)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "another ./test uses" in refused.stderr
        assert kept.exists()
    assert run_test("--clean", cache=tmp_path).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["others"]
    assert run_test("--clean", cache=tmp_path).returncode == 0
