"""`cycle` builds and proves what the new machine needs while the old one runs, and stops it last."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.base.errors import PaddockError
from paddock.core.converge import cycle, up
from places.node import CATTLE, ROOT, Node, Sent

LXC = "/nodes/pve/lxc"
OTHER_CONTENTS: dict[str, Any] = {"packages": ["jq"]}


def first(sent: list[Sent], method: str, path: str) -> int:
    return next(at for at, each in enumerate(sent) if (each.method, each.path) == (method, path))


def test_cycle_builds_a_changed_template_before_it_stops_the_machine(node: Node) -> None:
    up(node.agent(template="auto"))
    (machine,) = node.running
    running: list[int] = []
    node.before("POST", f"{LXC}/*/template", lambda: running.extend(node.running))
    node.sent.clear()
    cycle(node.agent(template="auto", **OTHER_CONTENTS))
    assert running == [machine]
    stopped = first(node.sent, "POST", f"{LXC}/{machine}/status/shutdown")
    creates = [at for at, each in enumerate(node.sent) if (each.method, each.path) == ("POST", LXC)]
    assert len(creates) == 1
    assert creates[0] < stopped
    assert node.running == [machine]  # it keeps its number, and with it its MAC


@pytest.mark.parametrize("request_", [("POST", LXC), ("POST", f"{LXC}/*/template")])
def test_cycle_leaves_the_machine_running_when_the_template_cannot_be_built(
    node: Node, request_: tuple[str, str]
) -> None:
    up(node.agent(template="auto"))
    before = node.running
    method, path = request_
    node.fault("answer", "500:out of space", method=method, path=path)
    with pytest.raises(PaddockError, match="out of space"):
        cycle(node.agent(template="auto", **OTHER_CONTENTS))
    assert set(before) <= set(node.running)
    cycle(node.agent(template="auto", **OTHER_CONTENTS))
    assert node.running == before


def test_cycle_leaves_the_machine_running_when_a_secret_is_missing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: dict[str, Any] = {"secrets": {"KEY": {"env": "BEE_KEY"}}}
    monkeypatch.setenv("BEE_KEY", "value")
    up(node.agent(**keys))
    monkeypatch.delenv("BEE_KEY")
    node.sent.clear()
    with pytest.raises(PaddockError, match="BEE_KEY"):
        cycle(node.agent(**keys))
    assert not node.writes
    assert node.running == [CATTLE]


@pytest.mark.parametrize("template", ["none", "auto"])
def test_cycle_downloads_a_missing_base_before_it_stops_the_machine(node: Node, template: str) -> None:
    archive = "debian-13-standard_13.1-2_amd64.tar.zst"
    keys: dict[str, Any] = {
        "base": {"url": f"https://example.org/{archive}", "sha512": "0" * 128},
        "template": template,
    }
    keys["token"] = ROOT
    up(node.agent(**keys))
    node.world.runtime.remove_file("pve", "local", f"vztmpl/{archive}")
    node.sent.clear()
    cycle(node.agent(**keys))
    download = first(node.sent, "POST", "/nodes/pve/storage/local/download-url")
    assert download < first(node.sent, "POST", f"{LXC}/{node.running[0]}/status/shutdown")
    assert node.running
