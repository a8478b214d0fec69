"""The units of a schedule, as golden cases."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cases import agrees, golden, read_case
from exposure import exposure
from paddock.base.errors import BadInput
from paddock.verbs.schedule import Timer

COMMAND = ("/usr/bin/python3", "-P", "-m", "paddock")


def timer(**values: Any) -> Timer:
    return Timer(command=COMMAND, **values)


@pytest.mark.parametrize("path", golden("schedule"))
def test_a_schedule_is_two_units_and_a_trial_with_the_same_settings(path: Path) -> None:
    case = read_case(path)
    made = timer(**case["timer"])
    assert agrees(path, case, "units", {name: text.splitlines() for name, text in made.units().items()})
    assert agrees(path, case, "trial", made.trial("/tmp/output"))
    settings = made.units()[f"{made.name}.service"].partition("[Service]\n")[2].splitlines()
    tried = [word.removeprefix("--property=") for word in made.trial("/o") if word.startswith("--property=")]
    assert [*settings[:-1], "StandardOutput=file:/o"] == tried


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("path", golden("schedule"))
def test_systemd_accepts_the_units(path: Path, tmp_path: Path) -> None:
    case = read_case(path)
    made = timer(**{**case["timer"], "folder": "/"})
    for name, text in made.units().items():
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in made.units()]
    said = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, timeout=60)
    assert "paddock-backup" not in said.stderr, said.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_service_of_root_is_confined(tmp_path: Path) -> None:
    """Unless agents are on this machine: what root does for them there needs its rights."""
    case = read_case(Path(__file__).parents[1] / "data/schedule/system.yaml")["timer"]
    made = timer(**{**case, "folder": "/"})
    unit = tmp_path / f"{made.name}.service"
    unit.write_text(made.units()[unit.name])
    assert exposure(unit) <= 3.0
    assert "ProtectSystem" not in timer(**{**case, "beside_agents": True}).units()[unit.name]


@pytest.mark.parametrize("word", ["a$b", "100%", 'a"b', "a'b", "a\\b", "a\nExecStart=/bin/sh"])
def test_a_word_that_systemd_would_change_is_refused(word: str) -> None:
    case = read_case(Path(__file__).parents[1] / "data/schedule/system.yaml")["timer"]
    for change in ({"at": word}, {"sets": [word]}, {"folder": word}, {"files": [word]}):
        with pytest.raises(BadInput):
            timer(**{**case, **change})
