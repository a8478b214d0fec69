"""What a file adds to the real Hermes Agent: documents, plugins and Python packages; and what it may not select."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from agent.installed import install_code
from levels import slow_proof
from paddock.demo import Stage, process_stage, running_agent
from pvebox.stage import stage_folder

pytestmark = pytest.mark.agent

# Shows that it was loaded by a file in Hermes' home.
PLUGIN = """\
import os, pathlib
def register(ctx):
    pathlib.Path(os.environ["HERMES_HOME"], "loaded-{name}").touch()
"""


@pytest.fixture
def stage() -> Iterator[Stage]:
    with stage_folder() as folder, process_stage(folder) as found:
        yield found


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


def test_a_plugin_of_the_documents_is_loaded_and_a_profile_is_not_followed(stage: Stage) -> None:
    add(
        stage,
        documents={
            "SOUL.md": "You keep the paddock.\n",
            "AGENTS.md": "Ask before you ride.\n",
            ".hermes/plugins/hello/plugin.yaml": "name: hello\nversion: '1'\ndescription: says hello\n",
            ".hermes/plugins/hello/__init__.py": PLUGIN.format(name="hello"),
        },
        settings={"plugins": {"enabled": ["hello"]}, "terminal": {"cwd": "."}},
    )
    home = hermes_home(stage)
    install_code(stage)
    with running_agent(stage):
        # All files belong to one account here, so the agent can replace a locked file and select a profile.
        (home / "profiles/other").mkdir(parents=True)
        (home / "active_profile").chmod(0o600)
        (home / "active_profile").write_text("other\n")
        shown = stage.paddock("exec", "hermes", "--", "hermes", "config", "path").strip()
        assert shown == str(home / "config.yaml")
        assert stage.paddock("ask", "hermes", "Quote paddock").strip() == "You keep the paddock."
        assert stage.paddock("ask", "hermes", "Quote before you ride").strip() == "Ask before you ride."
    assert (home / "loaded-hello").exists()
    assert len(list((home / "skills").rglob("SKILL.md"))) == 73
    assert list((home / "profiles/other").iterdir()) == []


@slow_proof
def test_a_plugin_that_is_a_python_package_is_loaded(stage: Stage, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "hermes_plugin_hay-1.0-py3-none-any.whl", "w") as wheel:
        info = "hermes_plugin_hay-1.0.dist-info"
        wheel.writestr("hermes_plugin_hay.py", PLUGIN.format(name="hay"))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: hermes-plugin-hay\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/entry_points.txt", "[hermes_agent.plugins]\nhay = hermes_plugin_hay\n")
        wheel.writestr(f"{info}/RECORD", "")
    own = replace(stage, environment={**stage.environment, "UV_FIND_LINKS": str(tmp_path)})
    add(own, python_packages=["hermes-plugin-hay==1.0"], skills="none", settings={"plugins": {"enabled": ["hay"]}})
    own.paddock("template", "lock", "hermes")
    with running_agent(own):
        assert own.paddock("ask", "hermes", "Say ok.").strip() == "ok: Say ok."
    assert (hermes_home(own) / "loaded-hay").exists()
    assert list((hermes_home(own) / "skills").rglob("SKILL.md")) == []
