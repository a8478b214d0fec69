"""version.sh reads the version from the code tree that the current bundle names."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.base.process import run
from paddock.channels import records
from paddock.kinds.workload import Paths
from paddock.runtimes import machine


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Two code trees, and a bundle that names the older one."""
    for tree, version in (("t1", "0.18.2"), ("t2", "0.19.0")):
        packages = tmp_path / f"code/.store/{tree}/lib/python3.11/site-packages"
        for name in (f"hermes_agent-{version}", "hermes_agent_tools-7.0", "aiohttp-3.14.5"):
            (packages / f"{name}.dist-info").mkdir(parents=True)
    (tmp_path / "etc/b1").mkdir(parents=True)
    (tmp_path / "etc/b1/bundle.env").write_text('AGENT="home_hermes"\nTREE="t1"\n')
    (tmp_path / "etc/current").symlink_to("b1")
    top = str(tmp_path)
    return Paths(f"{top}/code/.store", f"{top}/etc/current", f"{top}/state", f"{top}/state/home", f"{top}/state")


def reported(paths: Paths) -> list[tuple[str, str]]:
    result = run(machine.report_version(paths, "hermes-agent"))
    assert result.ok, result.err
    return records(result.out)


def test_the_version_is_that_of_the_current_bundle(paths: Paths) -> None:
    assert reported(paths) == [("version", "0.18.2")]


@pytest.mark.parametrize("content", ["", 'TREE=""\n', 'TREE="gone"\n'])
def test_without_a_code_tree_there_is_no_version(paths: Paths, content: str) -> None:
    Path(paths.etc, "bundle.env").write_text(content)
    assert reported(paths) == []


def test_without_a_bundle_there_is_no_version(paths: Paths) -> None:
    Path(paths.etc).unlink()
    assert reported(paths) == []
