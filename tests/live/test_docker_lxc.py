"""An agent in Docker in a machine on Proxmox, with directories of the node that root has to give it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from live.images import base_root, official_image
from live.rootdoor import obey, on_node, root, up_with_a_person
from live.stage import Node, cut_off, faults
from live.test_pet_and_cattle import Web, web
from paddock.demo import FACT, QUESTION

__all__ = ["web"]
pytestmark = pytest.mark.live

EXAMPLE = Path(__file__).parents[2] / "examples/docker-lxc.yaml"
BULK, FAST = "/mnt/pve/hdd/hermes", "/media/2tb/hermes"


class Shape:
    """The example, with the addresses of the node in a box."""

    def __init__(self, node: Node, archive: Path) -> None:
        self.node = node
        file = node.file()
        place = file["places"]["box"]["proxmox"]
        place["ssh"]["key"] = str(node.stage.folder / "id_ed25519")
        hermes = file["agents"]["hermes"]
        settings = hermes["settings"]
        settings["providers"]["litellm"] = settings["providers"].pop("standin") | {"key_env": "LITELLM_API_KEY"}
        settings["model"]["provider"] = "custom:litellm"
        agent = {
            # No limit of processors: not every kernel that runs these tests can set one.
            "container": {"archive": str(archive), "data": "4G", "cpus": None},
            "settings": settings,
            "secrets": {"LITELLM_API_KEY": {"env": "STANDIN_KEY"}},
        }
        own = node.write("docker-lxc.yaml", {"places": {"home": {"proxmox": place}}, "agents": {"hermes": agent}})
        self.files = ["-f", str(EXAMPLE), "-f", str(own)]

    def paddock(self, verb: str, *words: str) -> str:
        return self.node.paddock(verb, *words, *self.files).stdout

    def machine(self, script: str) -> str:
        found = json.loads(self.paddock("outputs", "--json"))["hermes"]
        return self.node.shell(found["address"], script).strip()

    def inside(self, script: str) -> str:
        """What a shell beside the agent prints."""
        return self.node.paddock("exec", "hermes", *self.files, "--", "sh", "-c", script).stdout.strip()


@pytest.fixture
def shape(node: Node, tmp_path: Path) -> Iterator[Shape]:
    shape = Shape(node, official_image(tmp_path / "official.tar"))
    yield shape
    shape.paddock("down")
    node.paddock("forget", "hermes", "--name", "hermes", *shape.files)


def test_docker_in_a_machine_with_the_disks_of_the_node(shape: Shape) -> None:
    node = shape.node
    asked = up_with_a_person(node, *shape.files)
    assert asked[:2] == [f"mkdir -p {BULK}", f"mountpoint -q {BULK} || chown 110000:110000 {BULK}"]
    assert f"pct set 118 -features keyctl=1,nesting=1 -mp2 {BULK},mp=/data -mp3 {FAST},mp=/fast" in asked
    assert shape.machine("docker info --format '{{.Driver}}'") == "overlay2"
    shape.paddock("ask", "hermes", f"Remember: {FACT}")
    shape.inside("echo big > /data/probe && echo quick > /fast/probe")
    probe = on_node(node, f"{BULK}/probe")
    assert (probe.read_text(), probe.stat().st_uid) == ("big\n", 110000)
    assert on_node(node, BULK).parent.stat().st_uid == 0, "never more than the directory itself"

    image = shape.machine("docker image ls --quiet --no-trunc")
    gone = node.paddock("down", *shape.files).stderr
    assert f"on the node this stays as it is: {BULK}, {FAST}" in gone
    assert "a new machine needs root at the node's shell again" in gone
    asked = up_with_a_person(node, *shape.files)
    assert not any("features" in line for line in asked), "a clone has its template's features"
    assert FACT in shape.paddock("ask", "hermes", QUESTION)
    assert shape.inside("cat /data/probe /fast/probe") == "big\nquick"
    assert shape.machine("docker image ls --quiet --no-trunc") == image, "it was not loaded again"
    assert "nothing to do" in shape.paddock("up", "--no-wait")


@faults
def test_without_a_volume_of_its_own_docker_says_what_that_costs(web: Web, tmp_path: Path) -> None:
    archive = str(base_root(tmp_path / "base.tar.gz"))
    web.spec.update(
        packages=[],
        command=["python3", "-m", "http.server", "8080", "--bind", "127.0.0.1", "--directory", "/etc"],
        runtime="docker",
        container={"base": "debian:12", "archive": archive, "install": True},
    )
    web.spec["machine"] |= {"disk": "8G", "memory": "1G"}
    web.paddock("up")
    assert "(storage driver vfs)" in web.paddock("plan")


@faults
def test_root_is_waited_for_whatever_goes_wrong(web: Web) -> None:
    node, host = web.node, f"/mnt/pve/hdd/{web.name}"
    web.spec["mounts"] = [{"host": host, "path": "/data"}]
    web.paddock("plan")
    files = ("-f", str(node.stage.folder / f"{web.name}.yaml"))
    cut_off(node, "cattle.root", "up", *files)
    assert f"mkdir -p {host}" in web.paddock("up", "--no-wait", fails=True)
    script = web.paddock("console").splitlines()
    obey(node, [line for line in script if "chown" not in line])
    told = web.paddock("up", "--no-wait", fails=True)
    assert "may not write to /data" in told
    assert f"on the host: chown 110000:110000 {host}" in told
    obey(node, script)
    web.paddock("up", "--no-wait")
    web.paddock("exec", web.name, "--", "sh", "-c", "echo mine > /data/probe")
    assert on_node(node, f"{host}/probe").stat().st_uid == 110000
    assert "✓ mounts" in web.paddock("verify")
    root(node, "pct", "set", web.status()["machine"], "--delete", "mp1")
    assert f"{host} is not mounted" in web.paddock("plan") or f"mkdir -p {host}" in web.paddock("plan")
