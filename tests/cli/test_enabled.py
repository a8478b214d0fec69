"""An agent with `enabled: false` is left alone unless it is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Paddock

FILE = """\
project: home
places: {here: {host: {}}}
defaults: {kind: service, place: here, runtime: process, command: [/bin/true]}
agents: {on: {}, off: {enabled: false}}
"""


def test_verbs_skip_a_disabled_agent_unless_only_names_it(
    paddock: Paddock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("paddock.yaml").write_text(FILE)
    assert [plan["agent"] for plan in json.loads(paddock("plan", "--json").out)] == ["on"]
    assert [plan["agent"] for plan in json.loads(paddock("plan", "--json", "--only", "off").out)] == ["off"]
