"""scripts/release builds the same wheel from the same commit, wherever and whenever, or writes nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from levels import slow_proof

ROOT: Final = Path(__file__).parents[1]
WHEN: Final = datetime(2026, 1, 31, 12, 30, 44, tzinfo=UTC)
PROJECT: Final = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "paddock"
version = "7.1"
requires-python = ">=3.11"
[tool.hatch.build.targets.wheel]
packages = ["src/paddock"]
"""
# A build that is different each time.
HOOK: Final = """\
import uuid
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        with open(self.root + "/src/paddock/built.py", "w") as file:
            file.write(f"ID = '{uuid.uuid4()}'")
"""
PRINTS_A_BILL: Final = "print('{}')\n"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed on this machine")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with one commit that is built in the same way."""
    files = {
        "pyproject.toml": PROJECT,
        "constraints.txt": "httpx==1\n",
        "src/paddock/__init__.py": "",
        "src/paddock/__main__.py": PRINTS_A_BILL,
        "scripts/release": (ROOT / "scripts/release").read_text(),
    }
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(tmp_path / "project", "init", "--quiet")
    commit(tmp_path / "project")
    return tmp_path / "project"


def git(project: Path, *words: str) -> str:
    who = {
        f"GIT_{role}_{what}": "someone@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    dates = {f"GIT_{role}_DATE": WHEN.isoformat() for role in ("AUTHOR", "COMMITTER")}
    environment = {**os.environ, **who, **dates, "GIT_CONFIG_GLOBAL": "/dev/null"}
    argv = ["git", "-C", str(project), *words]
    return subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def commit(project: Path) -> None:
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "a release")


def release(project: Path, out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = ["bash", str(project / "scripts/release"), str(out)]
    own = {**os.environ, "PADDOCK_VENV": sys.prefix, **environment}
    return subprocess.run(argv, env=own, capture_output=True, text=True, timeout=300)


def digests(printed: str) -> dict[str, str]:
    return {name: digest for digest, name in (line.split("  ") for line in printed.splitlines())}


def test_a_release_has_the_time_of_its_commit_and_prints_its_digests(project: Path, tmp_path: Path) -> None:
    (project / "src/paddock/uncommitted.py").write_text("")
    done = release(project, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "uncommitted changes are not part of the release\n"
    written = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "out").iterdir()}
    assert written.keys() == {"paddock-7.1-py3-none-any.whl", "constraints.txt", "paddock-7.1.cdx.json"}
    assert digests(done.stdout) == written
    with zipfile.ZipFile(tmp_path / "out/paddock-7.1-py3-none-any.whl") as wheel:
        assert {each.date_time for each in wheel.infolist()} == {WHEN.timetuple()[:6]}
        assert "paddock/uncommitted.py" not in wheel.namelist()


def test_a_later_release_of_the_same_commit_elsewhere_is_the_same(project: Path, tmp_path: Path) -> None:
    first = release(project, tmp_path / "first", TZ="Asia/Tokyo", LC_ALL="C")
    (tmp_path / "moved").mkdir()
    again = project.rename(tmp_path / "moved/elsewhere")
    second = release(again, tmp_path / "second", SOURCE_DATE_EPOCH="0", HOME=str(tmp_path))
    assert first.stdout
    assert first.stdout == second.stdout, second.stderr


def test_a_build_that_differs_each_time_is_not_released(project: Path, tmp_path: Path) -> None:
    (project / "hatch_build.py").write_text(HOOK)
    (project / "pyproject.toml").write_text(f"{PROJECT}[tool.hatch.build.hooks.custom]\n")
    commit(project)
    done = release(project, tmp_path / "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert "made different wheels" in done.stderr
    assert not (tmp_path / "out").exists()


@slow_proof
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this checkout is not a repository of git")
def test_the_wheel_of_this_checkout_is_reproducible(tmp_path: Path) -> None:
    first, second = (release(ROOT, tmp_path / name) for name in ("first", "second"))
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    (wheel,) = (tmp_path / "first").glob("paddock-*.whl")
    assert digests(first.stdout)[wheel.name] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    bill = next((tmp_path / "first").glob("*.cdx.json")).read_text()
    assert '"bomFormat": "CycloneDX"' in bill
