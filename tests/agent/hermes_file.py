"""Keys for the agent of a stage, and a plugin for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from paddock.demo import Stage

# Shows that it was loaded by a file in Hermes' home.
PLUGIN = """\
import os, pathlib
def register(ctx):
    pathlib.Path(os.environ["HERMES_HOME"], "loaded-{name}").touch()
"""


def add(stage: Stage, **keys: Any) -> None:
    """Add keys to the agent of the stage's file."""
    path, yaml = stage.folder / "paddock.yaml", YAML(typ="safe")
    tree = yaml.load(path)
    agent = tree["agents"]["hermes"]
    settings = agent["settings"] | keys.pop("settings", {})
    tree["agents"]["hermes"] = agent | keys | {"settings": settings}
    yaml.dump(tree, path)


def hermes_home(stage: Stage) -> Path:
    return Path(stage.environment["XDG_DATA_HOME"]) / "paddock/hermes/state/home/.hermes"
