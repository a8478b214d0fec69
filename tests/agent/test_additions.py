"""A Python package that the file adds to the real Hermes Agent. test_hermes.py has documents, and plugins in them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.hermes_file import PLUGIN, add, hermes_home
from levels import slow_proof
from paddock.demo import Stage, process_stage, running_agent
from pvebox.standins.stage import stage_folder

pytestmark = [pytest.mark.agent, slow_proof]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with stage_folder() as folder, process_stage(folder) as found:
        yield found


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
