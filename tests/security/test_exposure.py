"""The exposure of every unit by `systemd-analyze security`, beside that of the unit of Hermes' own NixOS module.

tests/data/exposure.yaml has the limits. The units are those of the golden bundles.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from cases import DATA, agrees, read_case
from paddock.base.process import run

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")

LIMITS: Final = DATA / "exposure.yaml"
_UNIT: Final = re.compile(r"^==> units/(\S+) \d+\n(.*?)(?=^==> |\Z)", re.MULTILINE | re.DOTALL)
_LEVEL: Final = re.compile(r"Overall exposure level for .*: ([\d.]+) ")
UPSTREAM: Final = """\
[Service]
User=hermes
ExecStart=/run/current-system/sw/bin/hermes gateway run
Restart=always
RestartSec=5
UMask=0007
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=no
PrivateTmp=yes
ReadWritePaths=/var/lib/hermes
"""


def exposure(folder: Path, name: str, unit: str) -> float:
    """Return the exposure of a unit, from 0 (safe) to 10."""
    (folder / name).write_text(unit)
    said = run(["systemd-analyze", "security", "--no-pager", "--offline=true", str(folder / name)])
    found = _LEVEL.search(said.out)
    assert found, said.out + said.err
    return float(found[1])


def units() -> dict[str, str]:
    """Return the units of all golden bundles, by bundle and name."""
    return {
        f"{path.stem} {name.removeprefix('paddock-home_hermes.')}": unit
        for path in sorted((DATA / "bundles").glob("*.txt"))
        for name, unit in _UNIT.findall(path.read_text())
    }


def test_no_unit_is_more_exposed_than_recorded(tmp_path: Path, show_table: Callable[[str], None]) -> None:
    found = {name: exposure(tmp_path, name.replace(" ", "."), unit) for name, unit in units().items()}
    upstream = exposure(tmp_path, "hermes-agent.service", UPSTREAM)
    show_table("\n".join(f"{name:46} {level:4}" for name, level in {"NixOS module": upstream, **found}.items()))
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        assert agrees(LIMITS, {}, "units", found)
        assert agrees(LIMITS, {}, "upstream", upstream)
    limits = read_case(LIMITS)["units"]
    assert found.keys() == limits.keys()
    assert {name: level for name, level in found.items() if level > limits[name]} == {}


def test_the_unit_of_an_agent_is_far_less_exposed_than_upstreams() -> None:
    case = read_case(LIMITS)
    agents = {name: level for name, level in case["units"].items() if name.endswith("gateway.service")}
    assert len(agents) == 4
    assert max(agents.values()) <= 2.5 < case["upstream"]


def test_a_unit_that_loses_a_directive_is_found(tmp_path: Path) -> None:
    unit = units()["systemd-volume gateway.service"]
    without = unit.replace("NoNewPrivileges=yes\n", "")
    assert without != unit
    assert exposure(tmp_path, "without.service", without) > exposure(tmp_path, "with.service", unit)
