from __future__ import annotations

import pytest

from paddock.file.models.machine import DnsSpec, MountSpec
from paddock.file.models.place import HostSpec, PlaceSpec
from paddock.file.models.whole import Spec
from paddock.file.secrets.sources import Source
from paddock.file.sentences import model_at
from paddock.file.tree import read
from paddock.kinds import KINDS
from paddock.kinds.hermes.spec import HermesSpec, McpServerSpec
from paddock.kinds.service import ServiceSpec

TREE = read("agents: {a: {kind: hermes}, b: {kind: service}, c: {}}", "x")


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("", Spec),
        ("places.host", PlaceSpec),
        ("places.host.host", HostSpec),
        ("places.host.no", None),
        ("agents.a", HermesSpec),
        ("agents.b", ServiceSpec),
        ("agents.a.machine.dns", DnsSpec),
        ("agents.a.mounts.0", MountSpec),
        ("agents.a.mcp_servers.command", McpServerSpec),
        ("agents.a.secrets.env", Source),
        ("agents.a.environment_files.0", Source),
        ("agents.a.settings", None),
        ("agents.b.settings", None),
    ],
)
def test_the_model_at_a_path_is_found_below_names_and_list_positions(path: str, model: type | None) -> None:
    assert model_at(tuple(filter(None, path.split("."))), TREE, KINDS) is model
