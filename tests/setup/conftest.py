"""A sandbox node with simulated containers behind its real API, and a stand-in model on another address."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pvebox.standins.model import serve


@dataclass(frozen=True)
class Offers:
    """What a conversation can be about: a node with a token, and a model with a key."""

    ready: dict[str, Any]
    state: Path
    models: str
    key: str = "sk-of-the-stand-in"
    token_id: str = "pooled@pve!setup"

    @property
    def address(self) -> str:
        return str(self.ready["url"]).removeprefix("https://")

    @property
    def token(self) -> str:
        return str(self.ready["tokens"][self.token_id])

    def fault(self, *words: str) -> None:
        """Cause a fault in the sandbox, like ``fill local-lvm``."""
        pvebox("fault", "--state", str(self.state), *words)


def pvebox(*words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "pvebox", *words], stdout=subprocess.PIPE, text=True, check=True, env=dict(os.environ)
    ).stdout


def own_address() -> str:
    """Return an address of this machine that is not loopback. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        return str(probe.getsockname()[0])


@pytest.fixture(scope="module")
def offers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offers]:
    state = tmp_path_factory.mktemp("init") / "box"
    ready = json.loads(pvebox("up", "--runtime", "memory", "--port", "0", "--delay-401", "0", "--state", str(state)))
    try:
        with serve(own_address(), key=Offers.key) as models:
            yield Offers(ready, state, models)
    finally:
        pvebox("clean", "--state", str(state))


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without keys."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "PADDOCK_AGE_KEY"):
        monkeypatch.delenv(name, raising=False)
    return home
