from __future__ import annotations

import pytest

from paddock.recipes import KINDS
from paddock.recipes.hermes.mcp_spec import McpServerSpec
from paddock.recipes.hermes.spec import HermesSpec
from paddock.recipes.service.spec import ServiceSpec
from paddock.spec.machine import DnsSpec, MountSpec
from paddock.spec.models import Spec
from paddock.spec.names import model_at
from paddock.spec.place import HostSpec, PlaceSpec
from paddock.spec.secrets import Source
from paddock.spec.tree import read

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
