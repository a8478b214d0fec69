"""Root's lines for a new token: pasted into the node's shell, they are enough for a first agent, and not for more."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cases import DATA, agrees, read_case
from paddock.base.errors import BadInput, PaddockError
from paddock.core.converge import cycle, up
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.proxmox.access.roles import choice_lines, held_by, token_from, user_lines
from paddock.places.proxmox.api.errors import Forbidden
from places.node import BASE, Node
from pvebox.console.console import Console
from pvebox.console.shell import CommandResult

TOKEN = "agents@pve!first"
VALUE = "12345678-1234-1234-1234-123456789abc"
DOWNLOAD = {"url": "https://example.org/debian-13-standard_13.1-2_amd64.tar.zst", "sha512": "0" * 128}
CHOSEN = {"node": "pve", "url": "https://pve:8006", "token": {"env": "T"}, "storage": "tank", "bridge": "vmbr7"}
GOLDEN = DATA / "first_access.yaml"


def paste(node: Node, lines: Sequence[str]) -> list[CommandResult]:
    """Paste lines into the node's shell; none of them fails."""
    results = [Console(node.world).run(shlex.split(line)) for line in lines]
    for line, result in zip(lines, results, strict=True):
        assert result.code == 0, f"{line}: {result.err}"
    return results


def spec_of(node: Node, **keys: Any) -> ProxmoxSpec:
    return node.agent(token=TOKEN, **keys).node._spec


def given_access(node: Node, **keys: Any) -> None:
    paste(node, user_lines(TOKEN))
    paste(node, choice_lines(TOKEN, spec_of(node, **keys), held_by(node.client(TOKEN))))


def test_the_lines_are_these() -> None:
    case = read_case(GOLDEN)
    assert agrees(GOLDEN, case, "user", user_lines(TOKEN))
    for key, base in (("present", BASE), ("download", DOWNLOAD)):
        spec = ProxmoxSpec.model_validate({**CHOSEN, "base": base, "ssh": {"key": "id"}})
        assert agrees(GOLDEN, case, key, choice_lines(TOKEN, spec))


def test_a_shell_with_history_reads_the_lines_as_the_side_door_does(tmp_path: Path) -> None:
    """In a person's shell ! recalls earlier lines, unless it is quoted."""
    (tmp_path / "pveum").write_text('#!/bin/sh\nprintf "%s\\n" "$@" end >>"$PRINTED"\nexit 1\n')
    (tmp_path / "pveum").chmod(0o755)
    spec = ProxmoxSpec.model_validate({**CHOSEN, "base": DOWNLOAD, "ssh": {"key": "id"}})
    lines = [*user_lines(TOKEN), *choice_lines(TOKEN, spec)]
    printed = tmp_path / "printed"
    subprocess.run(
        ["bash", "--norc", "-o", "history", "-H"],
        input="\n".join(["first line", *lines, ""]),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PRINTED": str(printed)},
        text=True,
        check=False,
        capture_output=True,
    )
    commands = [command for line in lines for command in line.split(" || ") if command.startswith("pveum ")]
    expected = ["\n".join([*shlex.split(command)[1:], "end"]) for command in commands]
    assert printed.read_text() == "\n".join(expected) + "\n"


@pytest.mark.parametrize("template", ["none", "auto"])
def test_a_token_with_the_lines_runs_its_first_agent(node: Node, template: str) -> None:
    given_access(node)
    agent = node.agent(token=TOKEN, template=template)
    findings, remedies = agent.examine()
    assert [each.subject for each in findings if not each.ok or each.warns] == ["memory of bee"]  # no backup
    assert remedies == []
    up(agent)
    cycle(node.agent(token=TOKEN, template=template))
    assert len(node.running) == 1


def test_the_lines_can_be_pasted_twice_and_say_how_to_replace_a_lost_secret(node: Node) -> None:
    first = "".join(result.out for result in paste(node, user_lines(TOKEN)))
    secret = node.world.access.tokens[TOKEN].secret
    assert secret in first
    before = node.world.access.copy()
    again = "".join(result.out for result in paste(node, user_lines(TOKEN)))
    assert node.world.access == before
    assert "pveum user token remove agents@pve first" in again
    paste(node, ["pveum user token remove agents@pve first", *user_lines(TOKEN)])
    assert node.world.access.tokens[TOKEN].secret != secret
    given_access(node)
    up(node.agent(token=TOKEN))


def test_a_token_that_has_everything_needs_no_lines(node: Node) -> None:
    given_access(node)
    assert choice_lines(TOKEN, spec_of(node), held_by(node.client(TOKEN))) == []
    assert choice_lines(TOKEN, spec_of(node, base=DOWNLOAD), held_by(node.client(TOKEN))) != []


def test_the_base_can_be_downloaded_and_still_be_listed(node: Node) -> None:
    """A role on a storage replaces the role above it: with the one for downloads alone, the token saw no archive."""
    given_access(node, base=DOWNLOAD)
    client = node.client(TOKEN)
    assert client.get("/nodes/pve/storage/local/content", {"content": "vztmpl"})
    findings, remedies = node.agent(token=TOKEN, base=DOWNLOAD).examine()
    assert all(finding.ok for finding in findings)
    assert remedies == []
    held = held_by(client)
    assert "Datastore.AllocateTemplate" in held["/storage/local"]
    assert "Datastore.AllocateSpace" not in held["/storage/local"]


def test_before_a_choice_the_token_can_look_and_take_no_space(node: Node) -> None:
    paste(node, user_lines(TOKEN))
    client = node.client(TOKEN)
    assert {row["storage"] for row in client.get("/nodes/pve/storage")} == {"local", "local-lvm"}
    params: dict[str, str | int] = {"vmid": 105, "filename": "vm-105-disk-0", "size": "1G"}
    for storage in ("local", "local-lvm"):
        with pytest.raises(Forbidden, match=r"Datastore\.AllocateSpace"):
            client.send("POST", f"/nodes/pve/storage/{storage}/content", params)


def test_a_leaked_token_reaches_nothing_outside_its_pools(node: Node) -> None:
    given_access(node)
    node.somebody(200, net0="name=eth0,bridge=vmbr0,ip=dhcp")
    client = node.client(TOKEN)
    assert client.get("/cluster/resources", {"type": "vm"}) == []
    requests: list[tuple[str, str, dict[str, str | int] | None]] = [
        ("GET", "/nodes/pve/lxc/200/config", None),
        ("POST", "/nodes/pve/lxc/200/status/start", None),
        ("DELETE", "/nodes/pve/lxc/200", None),
        ("POST", "/nodes/pve/lxc", {"vmid": 201, "ostemplate": BASE, "rootfs": "local-lvm:1"}),
        ("DELETE", f"/nodes/pve/storage/local/content/{BASE}", None),
        ("PUT", "/access/acl", {"path": "/", "roles": "Administrator", "users": "agents@pve"}),
    ]
    for method, path, params in requests:
        with pytest.raises(Forbidden):
            client.get(path) if method == "GET" else client.send(method, path, params)


def test_after_the_first_up_the_documented_line_leaves_a_daily_token(node: Node) -> None:
    given_access(node)
    keys: dict[str, Any] = {"state": {"pet": 300, "size": "1G"}}
    up(node.agent(token=TOKEN, **keys))
    page = (Path(__file__).parents[2] / "docs/security.md").read_text()
    lines = [line for line in page.split("\n") if line.startswith("pveum acl delete ")]
    assert len(lines) == 1
    paste(node, [line.replace("paddock@pve!agents", TOKEN).replace("paddock@pve", "agents@pve") for line in lines])
    cycle(node.agent(token=TOKEN, **keys))
    findings, remedies = node.agent(token=TOKEN, **keys).examine()
    assert all(finding.ok for finding in findings)
    assert remedies == []
    with pytest.raises(PaddockError):
        node.client(TOKEN).send("PUT", "/nodes/pve/lxc/300/config", {"protection": 0})


@pytest.mark.parametrize(
    "pasted",
    [VALUE, f" {VALUE}\n", f"{TOKEN}={VALUE}", VALUE.upper(), f"│ {VALUE} │", f"'{VALUE}'"],
)
def test_a_pasted_secret_becomes_the_token(pasted: str) -> None:
    assert token_from(TOKEN, pasted).reveal() == f"{TOKEN}={VALUE}"


@pytest.mark.parametrize("pasted", ["", "secret", VALUE[:-1], f"other@pve!x={VALUE}", f"{VALUE}\r\nX: y", "│"])
def test_another_text_is_not_taken_for_a_secret(pasted: str) -> None:
    with pytest.raises(BadInput, match="not the secret of the token"):
        token_from(TOKEN, pasted)


@pytest.mark.parametrize("name", ["agents", "a@pve", "a@pve!", "a b@pve!x", "a@pve!x'; reboot; '", "a@pve!x\n", "!x"])
def test_a_name_that_no_token_has_gets_no_lines(name: str) -> None:
    with pytest.raises(PaddockError, match="not the name of an API token"):
        user_lines(name)
    with pytest.raises(PaddockError, match="not the name of an API token"):
        token_from(name, VALUE)
