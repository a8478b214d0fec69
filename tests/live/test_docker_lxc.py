"""An agent in Docker in an LXC container, with directories of the node that only root can mount."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from levels import slow_proof
from live.api_log import ApiLog
from live.manual import api_client, container_parameters, destroy
from live.messenger import BOT_TOKEN, Messenger
from live.node import Node, kill_at_step
from live.node_root import on_node, root, run_lines, up_with_manual_steps
from live.test_pet_and_cattle import Web, web
from live.test_verify import LINES
from paddock.demo import FACT, QUESTION, VERSION

__all__ = ["web"]
pytestmark = pytest.mark.live

EXAMPLE = Path(__file__).parents[2] / "examples/docker-lxc.yaml"
# Lists the models as `curl …/v1/models` does, with the key from the environment instead of the command line.
MODELS = """\
import json, os, sys, urllib.request
key = {"Authorization": "Bearer " + os.environ[sys.argv[2]]}
answer = urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/models", headers=key))
print(*(model["id"] for model in json.load(answer)["data"]))
"""
BULK, FAST = "/mnt/pve/hdd/hermes", "/media/2tb/hermes"


class Shape:
    """The agent of a file for Docker in LXC, on the test node; ``key`` is for the model server at ``models``."""

    def __init__(
        self,
        node: Node,
        archive: Path,
        models: str,
        model: str,
        key: str,
        chat: Messenger | None = None,
        *,
        file: Path = EXAMPLE,
        variable: str = "LITELLM_API_KEY",
    ) -> None:
        self.node = node.with_environment(**{variable: key}, BOT_TOKEN=BOT_TOKEN)
        self.models, self.model, self.variable = models, model, variable
        place = node.file()["places"]["box"]["proxmox"]
        place["ssh"]["key"] = str(node.stage.folder / "id_ed25519")
        agent: dict[str, Any] = {
            # No limit of processors: not every kernel that runs these tests can set one.
            "container": {"archive": str(archive), "data": "4G", "cpus": None},
            "version": VERSION,
            "settings": {
                "model": {"default": model, "context_length": 131072},
                "model_catalog": {"enabled": False},
                "providers": {"litellm": {"base_url": models, "default_model": model, "discover_models": False}},
            },
        }
        if chat:
            chat.connect(agent)
        tree = {"project": "home", "places": {"home": {"proxmox": place}}, "agents": {"hermes": agent}}
        self.files = ["-f", str(file), "-f", str(node.write("docker-lxc.yaml", tree))]

    def paddock(self, verb: str, *words: str) -> str:
        return self.node.paddock(verb, *words, *self.files).stdout

    def machine(self, script: str) -> str:
        found = json.loads(self.paddock("outputs", "--json"))["hermes"]
        return self.node.shell(found["address"], script).strip()

    def inside(self, script: str) -> str:
        """Run a shell script in the container of the agent and return its output."""
        return self.node.paddock("exec", "hermes", *self.files, "--", "sh", "-c", script).stdout.strip()


def forget_hermes(node: Node) -> None:
    """Remove the agent hermes of other tests, which may have run before on the same node: its machine is not 118."""
    if any(listed["name"] in ("hermes", "hermes-pet") for listed in api_client(node).get("/nodes/pve/lxc")):
        node.paddock("down")
        node.paddock("forget", "hermes", "--name", "hermes")


@contextmanager
def removed_afterwards(shape: Shape) -> Iterator[Shape]:
    try:
        yield shape
    finally:
        shape.paddock("down")
        shape.node.paddock("forget", "hermes", "--name", "hermes", *shape.files)


@pytest.fixture
def shape(node: Node, official: Path) -> Iterator[Shape]:
    forget_hermes(node)
    models, key = node.models, node.stage.environment["STANDIN_KEY"]
    with removed_afterwards(Shape(node, official, models, "stand-in", key)) as found:
        yield found


def test_docker_in_a_machine_mounts_directories_of_the_node(shape: Shape) -> None:
    node, api = shape.node, api_client(shape.node)
    neighbour = "/nodes/pve/lxc/117/config"
    api.task("POST", "/nodes/pve/lxc", {"vmid": 117, "hostname": "litellm", **container_parameters(node)})
    before, log = api.get(neighbour), ApiLog(node)
    asked = up_with_manual_steps(node, *shape.files)
    owned = f"{{ mountpoint -q {BULK} || chown 110000:110000 {BULK}; }} &&"
    assert asked[:2] == [f"mkdir -p {BULK} &&", owned]
    assert f"pct set 118 -features keyctl=1,nesting=1 -mp2 {BULK},mp=/data -mp3 {FAST},mp=/fast &&" in asked
    assert shape.machine("docker info --format '{{.Driver}}'") == "overlay2"
    assert on_node(node, BULK).parent.stat().st_uid == 0, "only the directory itself changes its owner"
    run_the_checks_of_the_seed(shape)

    shape.paddock("ask", "hermes", f"Remember: {FACT}")
    shape.inside("echo quick > /fast/probe")
    image = shape.machine("docker image ls --quiet --no-trunc")
    gone = node.paddock("down", *shape.files).stderr
    assert f"these directories of the node are kept: {BULK}, {FAST}" in gone
    assert "a new machine needs root in the node's shell again" in gone
    asked = up_with_manual_steps(node, *shape.files)
    assert not any("features" in line for line in asked), "a clone has the features of its template"
    assert FACT in shape.paddock("ask", "hermes", QUESTION)
    assert shape.inside("cat /data/workspace/note /fast/probe") == "from the agent\nquick"
    assert shape.machine("docker image ls --quiet --no-trunc") == image, "the image was not loaded again"
    assert "nothing to do" in shape.paddock("up", "--no-wait")

    pet = int(str(json.loads(shape.paddock("status", "--json"))[0]["state"]).split("-")[2])
    templates = {row["vmid"] for row in json.loads(shape.paddock("template", "list", "--json"))}
    assert log.changed_containers() - templates == {pet, 118}
    assert len(log.changed_containers() & templates) == 1
    assert api.get(neighbour) == before
    destroy(api, 117)


def run_the_checks_of_the_seed(shape: Shape) -> None:
    """Run every check of section 13 of the seed's design and of task 10 of its plan."""
    api = api_client(shape.node)
    # LXC 118 running; `pct config 118` shows the mounts and nesting=1.
    assert api.get("/nodes/pve/lxc/118/status/current")["status"] == "running"
    config = api.get("/nodes/pve/lxc/118/config")
    assert {config["mp2"], config["mp3"]} == {f"{BULK},mp=/data", f"{FAST},mp=/fast"}
    assert "nesting=1" in config["features"]
    # /data and /fast writable, by the machine's root and by the agent; `docker ps` shows hermes up.
    for writes in (shape.machine, shape.inside):
        assert writes("touch /data/.w /fast/.w && rm /data/.w /fast/.w && echo MOUNTS_OK") == "MOUNTS_OK"
    assert shape.machine("docker ps --format '{{.Names}} {{.Status}}'").startswith("paddock-home_hermes Up ")
    # `docker compose logs` and `docker compose exec` of the seed, without compose.
    assert "Setup complete" in shape.machine("docker logs paddock-home_hermes 2>&1")
    assert shape.machine("docker exec paddock-home_hermes hermes --version").startswith("Hermes Agent")
    # A model list through the gateway, from inside and with the key; a prompt takes the same way.
    assert shape.inside(f"python3 -c {shlex.quote(MODELS)} {shape.models} {shape.variable}") == shape.model
    assert shape.paddock("ask", "hermes", "Say hello.").strip() == "ok: Say hello."
    # A file that the agent writes is under the host's path.
    shape.paddock("ask", "hermes", "Write /data/workspace/note: from the agent")
    note = on_node(shape.node, f"{BULK}/workspace/note")
    assert (note.read_text(), note.stat().st_uid) == ("from the agent\n", 110000)
    # The checks of `verify` are those of an agent in a unit, with one container instead of its processes.
    lines = {line["check"]: line["outcome"] for line in json.loads(shape.paddock("verify", "--json"))[0]["lines"]}
    of_this_shape = {
        "process.container",
        "mounts",
        "mount./data",
        "mount./fast",
        "egress.open",
        "version",
        "profile",
        "machine.memory",
    }
    assert lines.keys() == LINES - {"process.gateway"} | of_this_shape
    # The image starts as root and drops privileges itself; the code is part of the image.
    of_the_image = {"isolation.capabilities", "isolation.privileges", "files.code"}
    assert {check for check, outcome in lines.items() if outcome != "ok"} - {"isolation.apparmor"} == of_the_image


def in_a_container(web: Web, runtime: str, archive: Path) -> None:
    """Change the service so that it runs in a container."""
    web.spec.update(
        packages=[],
        command=["python3", "-m", "http.server", "8080", "--bind", "127.0.0.1", "--directory", "/etc"],
        runtime=runtime,
        container={"base": "debian:12", "archive": str(archive), "install": True},
    )
    web.spec["machine"] |= {"disk": "8G", "memory": "1G"}


@slow_proof
def test_docker_without_a_cache_volume_reports_its_storage_driver(web: Web, roots: dict[str, Path]) -> None:
    in_a_container(web, "docker", roots["base"])
    web.paddock("up")
    web.paddock("exec", web.name, "--", "sh", "-c", "echo kept > /data/fact")
    assert "(storage driver vfs)" in web.paddock("plan")
    web.spec["container"]["data"] = "2G"
    assert (
        "the container on the root disk is left there and not used; no software was installed in the container"
        in web.paddock("plan")
    )
    web.paddock("up")
    assert web.node.shell(web.status()["address"], "docker info --format '{{.Driver}}'") == "overlay2\n"
    assert web.paddock("exec", web.name, "--", "cat", "/data/fact") == "kept\n"
    assert web.paddock("plan") == f"{web.name}: nothing to do\n"


@slow_proof
def test_podman_in_a_machine_needs_a_cache_volume(web: Web, roots: dict[str, Path]) -> None:
    in_a_container(web, "podman", roots["base"])
    # On a disk without overlay, Podman falls back to vfs at first and fails from then on.
    told = web.paddock("up", fails=True)
    assert (
        f"podman does not work on the machine of {web.name}: Error: 'overlay' is not supported over overlayfs" in told
    )
    assert "container: {data: 20G} gives the engine a data volume that supports overlay" in told
    web.spec["container"]["data"] = "2G"
    web.spec["mounts"] = [{"host": f"/mnt/pve/hdd/{web.name}", "path": "/big"}]
    web.paddock("up", "--no-wait", fails=True)
    run_lines(web.node, web.paddock("console").splitlines())
    web.paddock("up", "--no-wait")
    driver = "podman info --format '{{.Store.GraphDriverName}}'"
    assert web.node.shell(web.status()["address"], driver) == "overlay\n"
    web.paddock("exec", web.name, "--", "sh", "-c", "echo kept | tee /data/fact > /big/fact; touch /tmp/installed")
    assert on_node(web.node, f"/mnt/pve/hdd/{web.name}/fact").stat().st_uid == 110000
    assert "✗" not in web.paddock("verify")
    assert web.paddock("plan") == f"{web.name}: nothing to do\n"
    web.paddock("down")
    web.paddock("up", "--no-wait", fails=True)
    run_lines(web.node, web.paddock("console").splitlines())
    web.paddock("up", "--no-wait")
    # The volume keeps the container when the machine is recreated.
    assert web.paddock("exec", web.name, "--", "sh", "-c", "cat /data/fact /big/fact && ls /tmp") == (
        "kept\nkept\ninstalled\n"
    )


@slow_proof
def test_up_resumes_until_root_has_run_all_commands(web: Web) -> None:
    node, host = web.node, f"/mnt/pve/hdd/{web.name}"
    web.spec["mounts"] = [{"host": host, "path": "/data"}]
    web.paddock("plan")
    files = ("-f", str(node.stage.folder / f"{web.name}.yaml"))
    kill_at_step(node, "cattle.root", "up", *files)
    assert f"mkdir -p {host}" in web.paddock("up", "--no-wait", fails=True)
    script = web.paddock("console").splitlines()
    run_lines(node, [line for line in script if "chown" not in line])
    told = web.paddock("up", "--no-wait", fails=True)
    assert "may not write to /data" in told
    assert f"on the host: chown 110000:110000 {host}" in told
    run_lines(node, script)
    web.paddock("up", "--no-wait")
    web.paddock("exec", web.name, "--", "sh", "-c", "echo mine > /data/probe")
    assert on_node(node, f"{host}/probe").stat().st_uid == 110000
    assert "✓ mounts" in web.paddock("verify")
    root(node, "pct", "set", web.status()["machine"], "--delete", "mp1")
    assert f"mkdir -p {host}" in web.paddock("plan")
    # The mount point of a disk never changes its owner.
    disk = on_node(node, "/mnt/disk")
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", str(disk)], check=True)
    try:
        web.spec["mounts"] = [{"host": "/mnt/disk", "path": "/data"}]
        web.paddock("up", "--no-wait", fails=True)
        run_lines(node, web.paddock("console").splitlines())
        told = web.paddock("up", "--no-wait", fails=True)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert "/mnt/disk is a mount point, which the agent cannot own" in told
    assert "choose a directory below it" in told
