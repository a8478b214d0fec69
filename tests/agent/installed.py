"""The code of the agents of a stage, installed once for all tests instead of by each `paddock run`."""

from __future__ import annotations

import inspect
import os
import shutil
from functools import partial
from pathlib import Path

from built import built
from paddock.channels.local import LocalGuest
from paddock.core.open import deployments
from paddock.core.resolve import locate
from paddock.demo import Stage
from paddock.kinds import load
from paddock.kinds.code import CodeTree
from paddock.onboard.code import install
from paddock.runtimes.code import tree as codetree
from paddock.show.reporter import Reporter


def install_code(stage: Stage) -> None:
    """Put the code of the agents into the store of the stage, where Paddock finds it.

    The files are links to those of an earlier installation by Paddock, which took half a minute. Tests only read them.
    """
    store = Path(stage.environment["XDG_DATA_HOME"]) / "paddock/.code/.store"
    store.mkdir(parents=True, exist_ok=True)
    with deployments(load(stage.folder / "paddock.yaml"), [], Reporter()) as found:
        code = [code for each in found if (code := locate(each).code)]
    for name, tree in code:
        if (store / name).exists():
            continue
        python = codetree.find_interpreter(LocalGuest(), tree.pythons)
        how = [inspect.getsource(module) for module in (install, codetree)]
        kept = built("code", "\n".join([name, str(python), *how]), partial(_install, tree, name)) / name
        shutil.copytree(kept, store / name, symlinks=True, copy_function=_linked)
        _name_python(store / name)


def _install(tree: CodeTree, name: str, folder: Path) -> None:
    codetree.install(LocalGuest(), tree, str(folder), name=name)


def _linked(kept: str, new: str) -> None:
    try:
        os.link(kept, new)
    except OSError:  # another file system
        shutil.copy2(kept, new)


def _name_python(tree: Path) -> None:
    """Let the programs of a copied tree name the Python of this tree."""
    for program in (tree / "bin").iterdir():
        first, _, rest = (b"", b"", b"") if program.is_symlink() else program.read_bytes().partition(b"\n")
        if first.endswith(f"/{tree.name}/bin/python".encode()):
            program.unlink()  # it may be a link to the kept file
            program.write_bytes(f"#!{tree}/bin/python\n".encode() + rest)
            program.chmod(0o755)
