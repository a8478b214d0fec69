"""Folders of a package's sources are fetched by the hash in the lock, once, and put at the top of the code tree."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.base.errors import PaddockError
from paddock.channels.local import LocalGuest
from paddock.kinds.code import CodeTree, Distribution, LocalCode
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.runtimes.code import sources
from paddock.runtimes.code import tree as codetree
from runtimes.test_codetree import PYTHON, tiny

WANTED = Distribution("tiny-agent", "1.2", ())


def source_archive(folder: Path, *names: str) -> Path:
    path = folder / "tiny_agent-1.2.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = 5, 0o644
            tar.addfile(entry, io.BytesIO(b"text\n"))
    return path


def offered(path: Path, sha256: str) -> str:
    sources_of_it = f'{{ url = "{path.as_uri()}", hashes = {{ sha256 = "{sha256}" }} }}'
    return f'[[packages]]\nname = "tiny-agent"\nsdist = {sources_of_it}\n'


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_lock_has_the_hashes_of_wheel_and_sources() -> None:
    agent = HermesSpec.model_validate({"kind": "hermes", "version": "0.19.0", "place": "home"})
    found = sources.locked_hashes(Hermes().code(agent, Path()).lock, "hermes-agent")
    assert [each[:6] for each in found] == ["ac986b", "bd0bac"]
    assert sources.locked_hashes("a==1 \\\n    --hash=sha256:" + 64 * "0", "hermes-agent") == []


def test_sources_are_fetched_once(tmp_path: Path) -> None:
    archive = source_archive(tmp_path, "tiny_agent-1.2/skills/a/SKILL.md")
    digest = sha256(archive)
    cache = tmp_path / "cache"
    cache.mkdir()
    assert sources.found(WANTED, [digest], cache) is None
    fetched = sources.fetch(WANTED, offered(archive, digest), ["0" * 64, digest], cache)
    assert sources.found(WANTED, ["0" * 64, digest], cache) == fetched
    fetched.write_bytes(b"damaged")
    assert sources.found(WANTED, [digest], cache) is None
    assert [each.name for each in cache.iterdir()] == [fetched.name]


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (lambda path: offered(path, 64 * "1"), "other sources of tiny-agent 1.2 than the lock"),
        (lambda path: offered(path, 64 * "0"), "do not have the expected content"),
        (lambda path: offered(path / "gone", 64 * "0"), "cannot be fetched"),
        (
            lambda path: offered(path, 64 * "0").replace("file://", "ftp://"),
            "cannot be fetched from this package index",
        ),
        (lambda path: '[[packages]]\nname = "tiny-agent"\nwheels = []\n', "has no sources of tiny-agent 1.2"),
        (lambda path: "", "has no sources of tiny-agent 1.2"),
    ],
)
def test_sources_with_another_hash_or_none_are_an_error(tmp_path: Path, told: object, sentence: str) -> None:
    assert callable(told)
    archive = source_archive(tmp_path, "tiny_agent-1.2/skills/a/SKILL.md")
    cache = tmp_path / "cache"
    cache.mkdir()
    with pytest.raises(PaddockError, match=sentence):
        sources.fetch(WANTED, told(archive), [64 * "0"], cache)
    assert list(cache.iterdir()) == []


def test_only_the_named_folders_are_unpacked(tmp_path: Path) -> None:
    names = ("skills/a/SKILL.md", "skills.py", "agent/skills/x", "optional-skills/b/SKILL.md", "tests/skills/x")
    archive = source_archive(tmp_path, *(f"tiny_agent-1.2/{name}" for name in names))
    sources.unpack(archive, ("skills", "optional-skills"), tmp_path / "out")
    found = {str(each.relative_to(tmp_path / "out")) for each in (tmp_path / "out").rglob("*") if each.is_file()}
    assert found == {"skills/a/SKILL.md", "optional-skills/b/SKILL.md"}
    with pytest.raises(PaddockError, match="has no folder plugins"):
        sources.unpack(archive, ("plugins",), tmp_path / "out")


def test_an_archive_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    archive = source_archive(tmp_path, "tiny_agent-1.2/skills/../../../outside")
    with pytest.raises(PaddockError, match="neither a file nor a folder inside of them"):
        sources.unpack(archive, ("skills",), tmp_path / "deep/out")
    assert not (tmp_path / "outside").exists()


def test_sources_are_unpacked_without_what_newer_pythons_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11.2 of Debian 12 has no filters for archives."""
    monkeypatch.setattr(tarfile.TarFile, "extract", None)
    monkeypatch.setattr(tarfile.TarFile, "extractall", None)
    archive = source_archive(tmp_path, "tiny_agent-1.2/skills/a/SKILL.md")
    sources.unpack(archive, ("skills",), tmp_path / "out")
    assert (tmp_path / "out/skills/a/SKILL.md").is_file()


def test_folders_come_from_the_kept_archive_without_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    archive = source_archive(tmp_path, "tiny_agent-1.2/skills/a/SKILL.md")
    lock = f"tiny-agent==1.2 \\\n    --hash=sha256:{sha256(archive)}\n"
    tree = CodeTree(WANTED, lock, (PYTHON,), (), folders=("skills",))
    assert tree.id != replace(tree, folders=()).id
    kept = sources.kept(WANTED, sha256(archive), tmp_path / "cache/paddock/code")
    kept.parent.mkdir(parents=True)
    archive.replace(kept)  # as one may bring it who cannot reach the index
    codetree._put_folders(tree, tmp_path / "out")
    assert (tmp_path / "out/skills/a/SKILL.md").read_text() == "text\n"


def test_a_folder_of_sources_brings_its_own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = tmp_path / "project"
    (project / "skills/a").mkdir(parents=True)
    (project / "skills/a/SKILL.md").write_text("text\n")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "tiny-agent"\nversion = "1.2"\nscripts = {tiny = "tinyagent:main"}\n'
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[tool.setuptools]\npy-modules = ["tinyagent"]\n'
    )
    (project / "tinyagent.py").write_text("def main():\n    print('one')\n")
    local = replace(WANTED, local=LocalCode(project, "one"))
    tree = replace(tiny(tmp_path, "one"), distribution=local, folders=("skills",))
    codetree.install(LocalGuest(), tree, str(tmp_path / "opt/.store"))
    assert (tmp_path / "opt/.store" / tree.id / "skills/a/SKILL.md").read_text() == "text\n"
