"""The version of an agent is read from the code tree that its current bundle names."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.onboard.agent import Agent
from paddock.onboard.code.install import ReportVersion
from performed import performed


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """Two code trees, and a bundle that names the older one."""
    for tree, version in (("t1", "0.18.2"), ("t2", "0.19.0")):
        packages = tmp_path / f"code/.store/{tree}/lib/python3.11/site-packages"
        for name in (f"hermes_agent-{version}", "hermes_agent_tools-7.0", "aiohttp-3.14.5"):
            (packages / f"{name}.dist-info").mkdir(parents=True)
    (tmp_path / "etc/b1").mkdir(parents=True)
    (tmp_path / "etc/b1/bundle.env").write_text('AGENT="home_hermes"\nTREE="t1"\n')
    (tmp_path / "etc/current").symlink_to("b1")
    top = str(tmp_path)
    return Agent("", "home_hermes", (), f"{top}/etc", f"{top}/code/.store", f"{top}/state", f"{top}/state")


def reported(agent: Agent) -> str:
    version = performed(ReportVersion(agent, "hermes_agent"))
    assert isinstance(version, str)
    return version


def test_the_version_is_that_of_the_current_bundle(agent: Agent) -> None:
    assert reported(agent) == "0.18.2"


@pytest.mark.parametrize("content", ["", 'TREE=""\n', 'TREE="gone"\n'])
def test_without_a_code_tree_there_is_no_version(agent: Agent, content: str) -> None:
    Path(agent.current, "bundle.env").write_text(content)
    assert reported(agent) == ""


def test_without_a_bundle_there_is_no_version(agent: Agent) -> None:
    Path(agent.current).unlink()
    assert reported(agent) == ""
