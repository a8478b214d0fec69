"""What a cluster offers to a first agent, and what a token may do there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import agrees, golden, read_case
from levels import by_level
from paddock.base.errors import PaddockError
from paddock.base.secret import Secret
from paddock.base.text import visible
from paddock.file.models.place import PoolsSpec
from paddock.places.proxmox.access.roles import user_lines
from paddock.places.proxmox.node import survey as offers
from paddock.places.proxmox.node.survey import Standing, connect, standing, survey, who
from places.node import BASE, DEPLOYER, ROOT, Node
from places.test_first_access import TOKEN, paste
from pvebox.cluster.fixture import default_fixture

DEBIAN = "debian-13-standard_13.1-2_amd64.tar.zst"
INDEX = [
    {
        "template": name,
        "location": f"http://download.proxmox.com/images/system/{name}",
        "sha512sum": "ab" * 64,
        "section": "system",
        "type": "lxc",
    }
    for name in ("alpine-3.22-default_20250617_amd64.tar.xz", "debian-12-standard_12.12-1_amd64.tar.zst", DEBIAN)
]


@pytest.mark.parametrize("path", golden("survey"))
def test_rows_of_the_api_become_offers(path: Path) -> None:
    case = read_case(path)
    rows = case["rows"]
    read: dict[str, Callable[[], Iterable[Any]]] = {
        "storages": lambda: offers.storages(rows, case["content"]),
        "bridges": lambda: offers.bridges(rows),
        "archives": lambda: offers.archives(rows),
        "downloads": lambda: offers.downloads(rows),
    }
    assert agrees(path, case, "offers", [asdict(each) for each in read[case["read"]]()])


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
_KEYS = [
    *("storage", "content", "active", "enabled", "avail", "total", "type", "shared", "iface", "cidr", "comments"),
    *("gateway", "volid", "size", "template", "location", "sha512sum", "node", "status"),
]
_ROWS = st.lists(st.dictionaries(st.sampled_from(_KEYS), _VALUES | st.sampled_from(["local", "rootdir", BASE, 1])))


@settings(max_examples=by_level(100, 2000), deadline=None)
@given(_ROWS)
def test_no_answer_of_a_node_breaks_a_survey_or_reaches_the_terminal(rows: list[dict[str, Any]]) -> None:
    found: list[Any] = [
        *offers.storages(rows, "rootdir"),
        *offers.bridges(rows),
        *offers.archives(rows),
        *offers.downloads(rows),
    ]
    offers.nodes(rows)
    texts = [value for each in found for value in asdict(each).values() if isinstance(value, str)]
    assert all(visible(text) == text and "\n" not in text for text in texts)
    assert all(each.free >= 0 for each in found if isinstance(each, offers.Storage))


def test_a_survey_shows_what_the_first_agent_needs(tmp_path: Path) -> None:
    fixture = default_fixture(("pve1", "pve2", "pve3"))
    node = Node(tmp_path, given={**fixture, "index": INDEX})
    node.world.members.offline.add("pve3")
    paste(node, user_lines(TOKEN))
    found = survey(node.client(TOKEN))
    assert [each.name for each in found.nodes] == ["pve1", "pve2"]
    assert found.offline == ("pve3",)
    assert found.next_free == 100
    first = found.nodes[0]
    assert first.version == node.world.release.version
    assert [(each.name, each.type) for each in first.disks] == [("local-lvm", "lvmthin")]
    assert [each.name for each in first.keepers] == ["local"]
    assert [each.name for each in first.bridges] == ["vmbr0"]
    assert [(each.volid, each.system) for each in first.archives] == [(BASE, "Debian 12")]
    assert [(each.file, each.system) for each in first.downloads] == [
        ("debian-12-standard_12.12-1_amd64.tar.zst", "Debian 12"),
        (DEBIAN, "Debian 13"),
    ]


def test_a_node_of_unknown_status_is_offered_if_it_answers(tmp_path: Path) -> None:
    """Its pvestatd reports no figures, perhaps because of a dead NFS; its API works."""
    node = Node(tmp_path, nodes=("pve1", "pve2", "pve3"))
    node.world.members.silent |= {"pve1", "pve2"}
    node.fault("answer", "595:No route to host", path="/nodes/pve2/*", count=1000)
    found = survey(node.client(ROOT))
    assert [each.name for each in found.nodes] == ["pve1", "pve3"]
    assert found.offline == ("pve2",)
    assert found.nodes[0].disks


def test_a_full_storage_is_offered_with_its_figures(node: Node) -> None:
    node.world.full.add("local-lvm")
    disk = survey(node.client(DEPLOYER)).nodes[0].disks[0]
    assert (disk.name, disk.free) == ("local-lvm", 0)
    assert disk.total > 0


def test_a_node_without_an_index_or_with_a_broken_storage_is_surveyed(node: Node) -> None:
    node.fault("answer", "500:got timeout", path="/nodes/pve/aplinfo")
    node.fault("answer", "500:storage 'local' is not online", path="/nodes/pve/storage/local/content")
    found = survey(node.client(ROOT)).nodes[0]
    assert not found.downloads
    assert not found.archives
    assert found.disks


def test_a_wrong_token_is_not_accepted(node: Node) -> None:
    assert who(node.client(DEPLOYER, secret="00000000-0000-0000-0000-000000000000")) == Standing(accepted=False)


def test_a_new_token_holds_nothing(node: Node) -> None:
    node.root("pveum", "user", "add", "new@pve")
    node.root("pveum", "user", "token", "add", "new@pve", "one", "--privsep", "1")
    found = who(node.client("new@pve!one"))
    assert (found.accepted, found.holds_nothing) == (True, True)
    assert found.blind == ("Datastore.Audit on /storage", "SDN.Audit on /sdn/zones")
    assert any(line.endswith("on /pool/paddock-state") for line in found.lacks)
    offered = survey(node.client("new@pve!one")).nodes[0]
    assert not any((offered.disks, offered.bridges, offered.archives))


def test_root_s_lines_let_a_token_look(node: Node) -> None:
    paste(node, user_lines(TOKEN))
    assert who(node.client(TOKEN)) == Standing(accepted=True)


@pytest.mark.parametrize(
    ("held", "blind", "lacks"),
    [
        ({"/": {"Datastore.Audit": 1, "SDN.Use": 1}}, 0, 2),
        ({"/": {"Datastore.Audit": 0, "SDN.Audit": 0}}, 2, 2),  # not inherited
        ({"/storage/local": {"Datastore.AllocateSpace": 1}, "/sdn/zones/localnetwork/vmbr0": {"SDN.Use": 1}}, 0, 2),
        ({"/storages": {"Datastore.Audit": 1}, "/sdn/zones2": {"SDN.Use": 1}}, 2, 2),
    ],
    ids=["inherited", "not inherited", "single", "neighbours"],
)
def test_a_standing_follows_from_what_the_token_holds(held: Any, blind: int, lacks: int) -> None:
    found = standing(held, PoolsSpec())
    assert (len(found.blind), len(found.lacks)) == (blind, lacks)


def test_a_client_without_a_node_reports_an_address_that_does_not_answer() -> None:
    with pytest.raises(PaddockError, match="does not answer"):
        connect("https://127.0.0.1:1", Secret(f"{TOKEN}=x"), ":".join(["00"] * 32))
