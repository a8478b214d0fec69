"""Install real code trees from a local wheel and run their proofs."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.base.process import CommandFailed
from paddock.channels.local import LocalGuest
from paddock.kinds.code import CodeTree, Distribution, LocalCode, Tool, Toolchain
from paddock.runtimes.code import tree as codetree

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
INFO = "tiny_agent-1.2.dist-info"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def tiny(folder: Path, says: str, proof: str = "import tinyagent") -> CodeTree:
    path = folder / "tiny_agent-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tinyagent.py", f"def main():\n    print({says!r})\n")
        wheel.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: tiny-agent\nVersion: 1.2\n")
        wheel.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{INFO}/entry_points.txt", "[console_scripts]\ntiny = tinyagent:main\n")
        wheel.writestr(f"{INFO}/RECORD", "")
    local = LocalCode(path, says)
    return CodeTree(Distribution("tiny-agent", "1.2", (), local=local), "", (PYTHON,), ("-c", proof))


def test_a_local_wheel_is_installed_with_its_program(tmp_path: Path) -> None:
    store = tmp_path / "opt/.store"
    trees = [tiny(tmp_path, "one"), tiny(tmp_path, "two")]
    for tree, says in zip(trees, ("one", "two"), strict=True):
        codetree.install(LocalGuest(), tiny(tmp_path, says), str(store), "toy")
        done = subprocess.run([store / tree.id / "bin/tiny"], capture_output=True, text=True, check=True)
        assert done.stdout == f"{says}\n"
    assert {path.name for path in (store.parent / "toy").iterdir()} == {tree.id for tree in trees}
    assert {path.name for path in store.iterdir()} == {tree.id for tree in trees}


def test_a_code_tree_that_fails_its_proof_is_not_installed(tmp_path: Path) -> None:
    tree = tiny(tmp_path, "one", proof="import sys; sys.exit('the proof failed')")
    with pytest.raises(CommandFailed, match="the proof failed"):
        codetree.install(LocalGuest(), tree, str(tmp_path / "opt/.store"))
    assert not (tmp_path / "opt/.store" / tree.id).exists()


def test_an_installed_code_tree_is_tried_again(tmp_path: Path) -> None:
    tree, store = tiny(tmp_path, "one"), tmp_path / "opt/.store"
    codetree.install(LocalGuest(), tree, str(store))
    codetree.try_in(LocalGuest(), tree, str(store), tree.id)
    next((store / tree.id).rglob("tinyagent.py")).unlink()
    with pytest.raises(CommandFailed, match="No module named 'tinyagent'"):
        codetree.try_in(LocalGuest(), tree, str(store), tree.id)


def test_the_proof_does_not_get_the_environment_of_the_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PVE_TOKEN", "canary-of-the-token")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    proof = "import os, sys; sys.exit('PVE_TOKEN' in os.environ or os.environ['TMPDIR'] == '')"
    codetree.install(LocalGuest(), tiny(tmp_path, "one", proof), str(tmp_path / "opt/.store"))


def test_a_tool_from_npm_is_installed_with_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = tmp_path / "tool.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        script = b"#!/bin/sh\necho driven\n"
        entry = tarfile.TarInfo("package/bin/driver")
        entry.size = len(script)
        tar.addfile(entry, io.BytesIO(script))
    digest = hashlib.sha512(archive.read_bytes()).hexdigest()
    files = dict.fromkeys(("x86_64", "aarch64"), "package/bin/driver")
    plain = tiny(tmp_path, "one")
    tree = replace(plain, tools=(Tool("driver", "1.0.0", digest, files),))
    kept = tmp_path / "cache/paddock/code" / f"driver-{digest[:16]}.tgz"
    kept.parent.mkdir(parents=True)
    archive.replace(kept)  # as one who has no npm may bring it
    assert tree.id != plain.id
    codetree.install(LocalGuest(), tree, str(tmp_path / "opt/.store"))
    driver = tmp_path / "opt/.store" / tree.id / "bin/driver"
    assert subprocess.run([driver], capture_output=True, text=True, check=True).stdout == "driven\n"


def test_programs_of_a_toolchain_are_programs_of_the_tree(tmp_path: Path) -> None:
    """The package has a program of its own, and one that is a script for a program in the package, as npx is."""
    path = tmp_path / "tiny_node-3-py3-none-any.whl"
    own, runner, info = "tiny_node-3.data/scripts/uv", "tiny_node/bin/node", "tiny_node-3.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for name in (own, runner):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            wheel.writestr(entry, f'#!/bin/sh\necho {name} "$@"\n')
        wheel.writestr("tiny_node/lib/npx.js", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-node\nVersion: 3\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{own},,\n{runner},,\n")
    lock = f"tiny-node @ {path.as_uri()} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
    commands = {"uv": ("bin/uv",), "npx": (runner, "tiny_node/lib/npx.js")}
    plain = tiny(tmp_path, "one")
    tree = replace(plain, toolchains=(Toolchain(lock, commands),))
    assert tree.id != plain.id
    codetree.install(LocalGuest(), tree, str(tmp_path / "opt/.store"))
    bin_ = tmp_path / "opt/.store" / tree.id / "bin"
    said = [subprocess.check_output([bin_ / name, "a b"], text=True).strip() for name in ("uv", "npx")]
    assert said[0] == f"{own} a b"
    assert said[1].startswith(f"{runner} {bin_}/../lib/python{PYTHON}/site-packages/tiny_node/lib/npx.js a b")


@pytest.mark.agent
def test_a_source_folder_is_built_locally_and_left_out_of_its_lock(tmp_path: Path) -> None:
    sources = tmp_path / "tiny"
    sources.mkdir()
    (sources / "tinyagent.py").write_text("import idna\ndef main():\n    print(idna.encode('ä'))\n")
    (sources / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "tiny-agent"\nversion = "1.2"\ndependencies = ["idna"]\n'
        '[project.scripts]\ntiny = "tinyagent:main"\n'
    )
    wanted = Distribution("tiny-agent", "1.2", (), local=LocalCode(sources, "d1"))
    lock = codetree.make_lock(wanted, "3.11")
    assert "idna==" in lock
    assert "tiny-agent==" not in lock
    tree = CodeTree(wanted, lock, (PYTHON,), ("-c", "import tinyagent"))
    codetree.install(LocalGuest(), tree, str(tmp_path / "opt/.store"))
    program = tmp_path / "opt/.store" / tree.id / "bin/tiny"
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "b'xn--4ca'\n"
    assert sorted(path.name for path in sources.iterdir()) == ["pyproject.toml", "tinyagent.py"], "left as it was"
    with pytest.raises(CommandFailed, match="idna"):
        codetree.build(CodeTree(wanted, "", (PYTHON,), ()), codetree.Interpreter("", PYTHON, "x86_64"))
