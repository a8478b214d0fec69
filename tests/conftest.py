"""Fixtures for all tests: Paddock writes its files below the test's own folder."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from paddock import secret


def pytest_configure() -> None:
    """Turn SIGTERM into KeyboardInterrupt, so that tests clean up when ``./test`` stops them."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Keep journals and deployed agents below the test's folder. Tests share only the download cache."""
    if request.node.get_closest_marker("live"):
        return  # live tests use one home for a whole module
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret, "_known", set())
