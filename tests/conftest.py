"""What all tests share: a home of their own for everything Paddock writes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from paddock import secret


def pytest_configure() -> None:
    """Asked to end, by Ctrl-C or by ``./test`` itself, tests still clean up after themselves."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Journals and deployed agents go below the test's folder; only the cache of downloads is shared."""
    if request.node.get_closest_marker("live"):
        return  # live tests keep one home for a whole module
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret, "_known", set())
