"""What live tests start from: a node that has templates, and an image for engines. Each is built once for a machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from built import built
from paddock.demo import Stage, lxc_stage
from pvebox.standins.stage import stage_folder

SOURCES: Final = Path(__file__).parents[1] / "src"
# The sources that decide what a template or a node has. If one is missing here, nothing is wrong, only slow: Paddock
# finds that a template is another one, and builds it.
_OF_TEMPLATES: Final = (
    "paddock/recipes",
    "paddock/runtimes",
    "paddock/places/proxmox/planner.py",
    "paddock/places/proxmox/template/plan.py",
    "paddock/places/proxmox/place.py",
    "pvebox",
)


@contextmanager
def node_with_templates() -> Iterator[Stage]:
    """Start a node that has the templates of the stories, and remove it when the block ends."""
    with stage_folder() as folder:
        # Templates are never written to, so their volumes are shared with the node that was built.
        shutil.copytree(kept_node(), folder, dirs_exist_ok=True, symlinks=True, copy_function=_link_volume)
        with lxc_stage(folder) as stage:
            yield stage


def kept_node() -> Path:
    """Return the folder of a stopped node that has templates, with the ssh key of their machines."""
    return built("node", _inputs(), _build_node)


def official_image_archive() -> Path:
    """Return an archive of the stand-in for the official image of Hermes."""
    from live import official_image as module

    inputs = f"{_inputs()}\n{_texts(Path(module.__file__).parent / 'official')}{Path(module.__file__).read_text()}"
    return built("image", inputs, lambda folder: module.official_image(folder / "official.tar")) / "official.tar"


def _build_node(folder: Path) -> None:
    with stage_folder() as passing, lxc_stage(passing) as stage:
        _build_templates(stage)
        state = passing / "sandbox"
        _pvebox("down", state)
        shutil.copytree(state, folder / "sandbox", symlinks=True, copy_function=_link_volume, ignore=_passing)
        for name in ("id_ed25519", "id_ed25519.pub"):
            shutil.copy2(passing / name, folder)


def _build_templates(stage: Stage) -> None:
    tree = dict(YAML(typ="safe").load(stage.folder / "paddock.yaml"))
    tree["agents"] |= {"in-docker": in_docker(tree["agents"]["hermes"])}
    path = stage.folder / "templates.yaml"
    YAML(typ="safe").dump(tree, path)
    command = [sys.executable, "-m", "paddock", "template", "build", "-f", str(path)]
    subprocess.run(command, cwd=stage.folder, env=dict(stage.environment), check=True, timeout=600)


def in_docker(hermes: dict[str, Any]) -> dict[str, Any]:
    """Return the agent of a node's file as one in Docker in its machine, without the archive of its image."""
    # No limit of processors: not every kernel that runs these tests can set one.
    container = {"image": "nousresearch/hermes-agent:latest", "data": "4G", "cpus": None, "install": True}
    return {**hermes, "runtime": "docker", "container": container, "machine": {"disk": "8G", "features": ["nesting"]}}


def _pvebox(verb: str, state: Path) -> None:
    subprocess.run([sys.executable, "-m", "pvebox", verb, "--state", str(state)], check=True, stdout=sys.stderr)


def _passing(_folder: str, names: list[str]) -> list[str]:
    """Name what only a running node needs."""
    return [name for name in names if name in ("run", "access.log", "tasks.jsonl", "host")]


def _link_volume(source: str, target: str) -> str:
    """Link a volume, and copy any other file."""
    if not source.endswith(".img"):
        return str(shutil.copy2(source, target))
    try:
        os.link(source, target)
    except OSError:  # another filesystem
        subprocess.run(["cp", "--sparse=always", source, target], check=True)
    return target


def _inputs() -> str:
    from pvebox.runtime.base import _HOOKS, _PACKAGES  # what the base template has

    return "\n".join((repr((_HOOKS, _PACKAGES)), *(_texts(SOURCES / name) for name in _OF_TEMPLATES)))


def _texts(path: Path) -> str:
    """Return the text of a file, or of all files below a folder."""
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.suffix not in ("", ".pyc"))
    return "".join(f"{file.relative_to(path.parent)}\n{file.read_text()}" for file in files if file.is_file())
