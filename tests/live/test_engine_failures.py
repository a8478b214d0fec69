"""Docker on a host over ssh: killed runs and failures are reported, and keep the container."""

from __future__ import annotations

from pathlib import Path

import pytest

from levels import slow_proof
from live.engine_host import SERVICE, Host, host, machine, web
from live.images import FOREIGN_PROGRAM, image_without_its_layer, root_with_shell, root_with_user
from live.node import kill_at_step, wait_for
from paddock.demo import FACT, QUESTION

__all__ = ["host", "machine", "web"]
pytestmark = pytest.mark.live


@slow_proof
@pytest.mark.parametrize("step", ["image.load", "code.install", "container.create", "agent.configure"])
def test_up_resumes_after_a_kill(host: Host, roots: dict[str, Path], step: str) -> None:
    base = {"base": "debian:12", "archive": str(roots["bare"]), "install": True}
    host.becomes("hermes", runtime="docker", container=base)
    host.root("docker image prune --all --force 2>/dev/null || true")  # the first time, it is not installed yet
    kill_at_step(host.node, step, "up", "-f", host.write())
    host.up()
    assert "nothing to do" in host.paddock("up").stdout
    host.paddock("down")


@slow_proof
def test_up_resumes_after_a_kill_while_recreating_the_container(web: Host) -> None:
    web.agent["container"] |= {"shm_size": "64M"}
    kill_at_step(web.node, "container.recreate", "up", "-f", web.write())
    web.up()
    assert "nothing to do" in web.paddock("up").stdout
    assert web.root("docker ps --all --format '{{.Names}}'") == "paddock-home_web"


@slow_proof
def test_the_container_stops_with_its_lease(web: Host) -> None:
    # When the docker client of the unit is killed, ExecStopPost of the unit stops the container.
    web.root("kill -9 $(systemctl show --property MainPID --value paddock-home_web.container)")
    wait_for(web.runs)
    web.root("systemctl kill --signal KILL paddock-home_web.lease")
    wait_for(web.runs)
    web.root("systemctl stop paddock-home_web.lease")
    assert web.root("docker inspect -f '{{.State.Running}}' paddock-home_web") == "false"
    web.up()


@slow_proof
def test_failures_are_explained_and_keep_the_container(web: Host, roots: dict[str, Path], tmp_path: Path) -> None:
    good = web.agent["container"]
    web.installs_something()
    web.inside("echo precious >/data/memory")
    first = web.id()
    web.agent["mounts"] = [{"host": "/srv/nowhere", "path": "/library"}]
    web.fails_with("there is no directory /srv/nowhere on box")
    del web.agent["mounts"]
    web.agent["container"] = good | {"options": ["--no-such-option"]}
    web.fails_with("unknown flag: --no-such-option")
    web.agent["container"] = {"base": "debian:12"}
    web.fails_with("pulling debian:12 on box failed")

    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(roots["base"].read_bytes()[:100_000])
    taken = root_with_user(tmp_path / "taken.tar.gz", "ubuntu:x:12000:12000::/home/ubuntu:/bin/bash\n")
    for archive, sentence in (
        (tmp_path / "none.tar", f"cannot read {tmp_path}/none.tar: No such file or directory"),
        (cut, "cut.tar.gz is not a complete tar archive"),
        (image_without_its_layer(tmp_path / "hollow.tar"), "hollow.tar is not a complete image: it has no layer.tar"),
        (root_with_shell(tmp_path / "silent.tar", None), "no program runs in the image"),
        (root_with_shell(tmp_path / "foreign.tar", FOREIGN_PROGRAM), "exec format error"),
        (taken, "the image has a user ubuntu with uid 12000: give the agent another user:"),
    ):
        web.agent["container"] = good | {"archive": str(archive)}
        web.fails_with(sentence)
    assert len(web.images()) == 1, "images that cannot be used are removed"
    web.agent["container"] = good
    web.agent["user"] = {"name": "web", "uid": 12321}
    web.fails_with("on the machine of web, account web has uid 12000, and the file says 12321")
    web.root("useradd --uid 12050 somebody")
    web.agent["user"] = {"name": "other", "uid": 12050}
    web.fails_with("somebody has the uid 12050 on this machine: give the agent another user:")
    assert web.root("userdel somebody; getent passwd other || echo none") == "none"

    web.agent["user"] = SERVICE["user"]
    assert "nothing to do" in web.paddock("up").stdout
    assert web.id() == first
    assert web.has_installed()
    assert web.inside("cat /data/memory") == "precious"


@slow_proof
def test_a_change_that_fails_gets_the_container_from_before_back(web: Host, roots: dict[str, Path]) -> None:
    web.installs_something()
    first, good = web.id(), dict(web.agent)
    dies = ["sh", "-c", "echo 'Error: no such thing' >&2; exit 3"]  # again and again
    for change in (
        {"command": dies},  # only a restart
        {"command": dies, "container": good["container"] | {"shm_size": "64M"}},  # another container
        {"command": dies, "runtime": "podman"},  # another engine
        {"command": dies, "runtime": "systemd", "container": {}},  # none
    ):
        web.agent |= {**change, "verify": {"timeout": "5s"}}
        web.fails_with("web runs with its configuration from before again, because the new one failed:")
        web.agent = dict(good)
        wait_for(web.runs)
        assert web.plan() == "web: nothing to do\n"
        assert web.id() == first
        assert web.has_installed()
        assert web.root("docker ps --all --format '{{.Names}}'") == "paddock-home_web"
    assert web.root("command -v podman >/dev/null && podman ps --all --quiet || true") == ""


@slow_proof
def test_the_unit_creates_a_removed_container_again(web: Host) -> None:
    first = web.id()
    web.root("docker rm -f paddock-home_web")
    wait_for(web.runs)
    assert web.id() != first
    assert (
        "paddock: the container paddock-home_web was removed; it is created again" in web.paddock("logs", "web").stdout
    )
    assert "✗" not in web.paddock("verify").stdout
    assert web.plan() == "web: nothing to do\n"
    web.root("systemctl stop paddock-home_web.container; docker rm -f paddock-home_web")
    web.root("systemctl start paddock-home_web.container")
    wait_for(web.runs)


@slow_proof
def test_an_engine_that_does_not_start_is_reported(web: Host) -> None:
    good, first = web.agent["container"], web.id()
    web.root("systemctl stop paddock-home_web.lease docker.socket docker")
    web.agent["container"] = good | {"install": False}
    assert "Cannot connect to the Docker daemon" in web.paddock("plan", fails=True).stdout
    web.agent["container"] = good
    web.up()
    assert web.id() == first

    web.root(
        """mkdir -p /etc/docker && echo '{"live-restore": true}' >/etc/docker/daemon.json; systemctl reload docker"""
    )
    assert "keeps containers running when its daemon stops" in web.paddock("plan", fails=True).stdout
    web.root("rm /etc/docker/daemon.json; systemctl reload docker")

    stop = "systemctl stop paddock-home_web.lease docker.socket docker"
    web.root(f"{stop}; mkdir -p /etc/docker && echo '{{ broken' >/etc/docker/daemon.json")
    web.fails_with("docker.service does not start on box:")
    web.fails_with("daemon.json")
    web.root("rm /etc/docker/daemon.json; systemctl reset-failed docker docker.socket")
    web.up()
    assert web.id() == first


@slow_proof
def test_a_taken_port_is_reported_with_the_process_that_holds_it(web: Host, roots: dict[str, Path]) -> None:
    first = web.id()
    squat = "systemd-run --quiet --unit squatter python3 -m http.server --bind 127.0.0.1"
    web.root(f"systemctl stop paddock-home_web.container && {squat} 8123 && sleep 1")
    web.fails_with("port 8123 is held by python3 (process ")  # that process answers the health check
    web.root("systemctl stop squatter")
    web.up()
    assert web.id() == first
    web.paddock("down")

    web.becomes("hermes", runtime="docker", container={"base": "debian:12", "archive": str(roots["base"])})
    web.root(f"{squat} 8642 && sleep 1")
    web.fails_with("port 8642 is held by python3 (process ")
    ended = web.root("systemctl show -p ExecMainStatus,NRestarts,ActiveState paddock-home_hermes.container").split()
    assert sorted(ended) == ["ActiveState=failed", "ExecMainStatus=78", "NRestarts=0"], (
        "no restart, since a restart would not help"
    )
    web.root("systemctl stop squatter")
    first = web.id()
    web.up()
    assert web.id() == first
    web.paddock("down")


@slow_proof
def test_a_full_disk_is_reported_and_up_resumes_with_free_space(web: Host, roots: dict[str, Path]) -> None:
    web.paddock("down")
    web.becomes("hermes", runtime="docker")
    web.agent["container"] = {"base": "debian:12", "archive": str(roots["bare"]), "install": True}
    web.root("docker image rm localhost/paddock/archive 2>/dev/null; docker image prune --all --force")
    with web.disk_with_only(60):
        web.fails_with(f"loading {roots['bare']} on box failed: no space is left there")
    web.up()
    first = web.id()
    web.paddock("ask", "hermes", f"Remember: {FACT}")
    web.root("rm -r /opt/paddock/.store/*")
    with web.disk_with_only(120):
        web.fails_with("installing the code on the image")
    assert web.root("ls -A /opt/paddock/.store") == "", "an incomplete code tree is removed"
    web.up()
    assert web.id() == first

    with web.disk_with_only(0):
        assert "no space left on device" in web.paddock("verify", "hermes", fails=True).stdout.lower()
        web.agent["environment"] = {"COLOUR": "green"}
        web.fails_with("configuring hermes on box failed: no space is left there")
        web.agent["container"] |= {"shm_size": "64M"}
        web.fails_with("no space is left there")
        web.root("systemctl restart paddock-home_hermes.container")
    web.agent["container"] |= {"shm_size": "1G"}
    web.up()
    assert web.id() == first
    assert FACT in web.paddock("ask", "hermes", QUESTION).stdout
    web.paddock("down")
