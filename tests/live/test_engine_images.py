"""Images of Docker and Podman from archives: the official image, bases without Python, and images that are unused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from levels import slow_proof
from live.engine_host import Host, host, machine, web
from live.images import minimal_root, root_without_python, saved_image
from live.node import wait_for
from live.official_image import NAME
from paddock.demo import FACT, QUESTION, VERSION

__all__ = ["host", "machine", "web"]
pytestmark = pytest.mark.live


@slow_proof
def test_unused_images_are_removed(web: Host, roots: dict[str, Path], tmp_path: Path) -> None:
    web.root("docker tag $(docker images --quiet localhost/paddock/archive) of-people:1")
    first = web.images()
    saved = saved_image(tmp_path / "saved.tar", "came-with:it", roots["bare"])
    web.agent["container"] = {**web.agent["container"], "archive": str(saved)}
    web.up()
    # The previous image stays as long as the previous bundle. Names from the archive are removed.
    assert set(first) < set(web.images())
    assert "came-with:it" not in web.images()
    web.agent["environment"] = {"COLOUR": "green"}
    web.up()
    second = web.images()
    assert "of-people:1" in second
    assert set(first) & set(second) == {"of-people:1"}
    web.paddock("down")
    assert web.images() == ["of-people:1"]
    web.root("docker image rm of-people:1")


# A program of the agent that its image would find before the system's, and notes who runs it.
_PLANTED = """
mkdir -p /opt/data/.local/bin
for name in chown chmod find rm usermod; do
    printf '#!/bin/sh\\nid -u >>/tmp/ran\\nexec /usr/bin/%s "$@"\\n' "$name" >"/opt/data/.local/bin/$name"
    chmod 755 "/opt/data/.local/bin/$name"
done
"""
_UNIT = "paddock-home_hermes.container"


def starts_as_the_official_image(host: Host) -> None:
    """Check how the image runs: its supervisor, one messaging process, the account, and what stays locked."""
    assert host.inside_as_root("cat /proc/1/comm; ls -d /run/s6/basedir").split() == ["s6-svscan", "/run/s6/basedir"]
    assert host.inside_as_root("s6-svstat -o up /run/service/gateway-default") == "false"
    running = host.inside_as_root("ps -eo uid,args").splitlines()
    gateways = [line.split()[0] for line in running if "gateway run --no-supervise" in line and "hermes" in line]
    assert {uid for uid in gateways if uid != "0"} == {str(host.agent["user"]["uid"])}, running
    assert sum("bin/hermes gateway run" in line for line in running) == 1, running
    owners = host.inside_as_root(
        "stat -c '%u %a' /opt/data /opt/data/.env /opt/data/config.yaml /opt/data/active_profile"
    )
    assert owners.splitlines() == ["0 1770", *["0 444"] * 3]
    assert "API_SERVER_KEY" not in host.inside("cat /opt/data/.env")
    assert host.inside("echo x 2>/dev/null >/opt/data/.env || echo refused") == "refused"


@slow_proof
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_an_image_may_contain_the_code_of_the_agent(host: Host, official: Path, engine: str) -> None:
    account = {"name": "aide", "uid": 12345, "gid": 12346}
    host.root("rm -rf /var/lib/paddock/hermes /var/lib/paddock/.agents/home_hermes")  # of another account
    host.becomes("hermes", runtime=engine, user=account, version=VERSION, dashboard={"port": 9200})
    host.agent["container"] = {"image": NAME, "archive": str(official), "install": True}
    host.agent["cli_on_path"] = True
    host.up()
    assert "nothing to do" in host.paddock("up").stdout
    host.paddock("ask", "hermes", f"Remember: {FACT}")
    assert host.inside("id -u; id -g") == "12345\n12346"
    assert host.root("hermes config path </dev/null") == "/opt/data/config.yaml"
    starts_as_the_official_image(host)

    # The dashboard has the address and the port of the file, and the version is compared with the image's.
    assert host.root("ss -tlnH 'sport = :9200'").split()[3] == "127.0.0.1:9200"
    proofs = host.paddock("verify").stdout
    assert "✓ dashboard " in proofs
    assert ["✓", "version", VERSION] in [line.split()[:3] for line in proofs.splitlines()]
    host.agent["version"] = "0.18.2"
    wrong = host.paddock("verify", fails=True).stdout
    assert f"the image has {VERSION}, and the file says 0.18.2" in wrong
    del host.agent["version"]

    # What the agent writes with its own tool, beside the image's own folder.
    host.paddock("ask", "hermes", "Write /srv/agent/workspace/note: by the tool")
    assert host.inside("cat /srv/agent/workspace/note") == "by the tool"

    # A second start: the state says that a messaging process ran, and the agent has planted programs.
    host.inside(_PLANTED)
    host.root(f"systemctl restart {_UNIT}")
    wait_for(lambda: json.loads(host.paddock("status", "--json").stdout)[0]["health"] == "ok", seconds=60)
    starts_as_the_official_image(host)
    assert "0" not in host.inside_as_root("cat /tmp/ran 2>/dev/null; true").split(), "nothing of the agent runs as root"
    assert "✗" not in host.paddock("verify").stdout

    # What people ask of the engine.
    assert host.by_engine("ps --format '{{.Names}} {{.Status}}'").startswith("paddock-home_hermes Up ")
    assert "Setup complete" in host.by_engine("logs --tail 1000 paddock-home_hermes 2>&1")
    assert host.by_engine("exec paddock-home_hermes hermes --version").startswith("Hermes Agent")

    first = host.id()
    host.agent["environment"] = {"COLOUR": "red"}
    host.up()
    assert host.id() == first
    assert host.inside("echo $COLOUR") == "red"
    host.root(f"systemctl stop {_UNIT}")
    ended = host.root(f"systemctl show --property Result,ActiveState {_UNIT}").split()
    assert sorted(ended) == ["ActiveState=inactive", "Result=success"]
    host.paddock("up", "--recreate")
    assert FACT in host.paddock("ask", "hermes", QUESTION).stdout
    host.paddock("down")
    host.paddock("forget", "hermes", "--name", "hermes")


@slow_proof
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_base_without_python_gets_one_in_a_layer_of_its_own(host: Host, engine: str) -> None:
    base = {"base": "ubuntu:24.04", "archive": str(minimal_root()), "install": True}
    host.becomes("hermes", runtime=engine, container=base)
    host.up()
    host.paddock("ask", "hermes", f"Remember: {FACT}")
    assert host.inside("command -v python3") == "/usr/bin/python3"
    assert host.plan() == "hermes: nothing to do\n", "the layer does not count as another image"
    names = [name for name in host.images() if name.startswith("localhost/paddock/")]
    given, made = sorted(names)
    assert (given.rpartition(":")[0], made.rpartition(":")[0]) == (
        "localhost/paddock/archive",
        "localhost/paddock/python",
    )
    assert host.by_engine(f"run --rm --entrypoint /bin/sh {given} -c 'command -v python3 || echo none'") == "none"
    assert host.by_engine("ps --all --format '{{.Names}}'") == "paddock-home_hermes"

    # A new container is made from the same image. What a killed run has left goes with the agent.
    first, image = host.id(), "container inspect --format '{{.Image}}' paddock-home_hermes"
    runs = host.by_engine(image)
    host.agent["container"]["shm_size"] = "512M"
    host.up()
    assert host.id() != first
    assert host.by_engine(image) == runs
    assert host.paddock("ask", "hermes", QUESTION).stdout.strip() == FACT
    left = f"create --name paddock-home_hermes.layer --label paddock.layer=home_hermes {given} /bin/sh"
    host.by_engine(left)
    host.paddock("down")
    assert not [name for name in host.images() if name.startswith("localhost/paddock/")]
    assert host.by_engine("ps --all --quiet") == ""


@slow_proof
def test_a_base_without_python_is_rejected(host: Host, tmp_path: Path) -> None:
    lacking = root_without_python(tmp_path / "lacking.tar.gz")
    host.becomes("hermes", runtime="docker", container={"base": "debian:12", "archive": str(lacking), "install": True})
    host.fails_with("has no Python 3.11 or 3.12 or 3.13")
