"""Docker and Podman pull images from a registry, and use a newer image of a tag only on request."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from levels import slow_proof
from live.engine_host import Host, machine, web

__all__ = ["machine", "web"]
pytestmark = pytest.mark.live

# Installs and starts a registry, if there is none.
_REGISTRY = """
! command -v docker-registry >/dev/null || exit 0
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-registry >/dev/null
systemctl stop docker-registry
echo '{version: 0.1, storage: {filesystem: {rootdirectory: /srv/registry}}, http: {addr: "127.0.0.1:5000"}}' >/srv/open
systemd-run --quiet docker-registry serve /srv/open
mkdir -p /etc/containers/registries.conf.d
printf '[[registry]]\nlocation = "localhost:5000"\ninsecure = true\n' >/etc/containers/registries.conf.d/test.conf
"""


@pytest.fixture
def registry(web: Host) -> Host:
    """The machine of the service, with a registry on loopback."""
    web.root(_REGISTRY)
    return web


@slow_proof
def test_images_are_pulled_from_a_registry_by_tag_and_by_digest(registry: Host) -> None:
    web = registry
    image = web.root("docker image ls --quiet localhost/paddock/archive | head -n 1")
    web.root(f"docker tag {image} localhost:5000/base:1 && docker push --quiet localhost:5000/base:1")
    _, _, digest = web.root("docker image inspect -f '{{index .RepoDigests 0}}' localhost:5000/base:1").partition("@")
    web.root("docker image rm localhost:5000/base:1")
    web.paddock("down")
    for engine in ("docker", "podman"):
        for base in ("localhost:5000/base:1", f"localhost:5000/base:1@{digest}"):
            web.becomes("web", runtime=engine, container={"base": base, "install": True})
            web.up()
            assert "nothing to do" in web.paddock("up").stdout
        web.agent["container"] = {"base": f"localhost:5000/base@sha256:{'0' * 64}"}
        web.fails_with("pulling localhost:5000/base@sha256:000")
        web.becomes("web", runtime=engine, container={"base": base, "install": True})
        assert "nothing to do" in web.paddock("up").stdout
        web.paddock("down")


def _pushes(web: Host, tag: str, mark: str) -> str:
    """Push an image with one more file to the registry, as someone else would, and return its digest."""
    web.root(
        f"echo {mark} >/tmp/mark && docker create --name marked source:1 true && docker cp /tmp/mark marked:/mark"
        f" && docker commit marked {tag} && docker rm marked && docker push --quiet {tag}"
    )
    _, _, digest = web.root(f"docker image inspect -f '{{{{index .RepoDigests 0}}}}' {tag}").partition("@")
    web.root(f"docker image rm {tag}")
    return digest


@slow_proof
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_tag_of_a_newer_image_is_used_on_request_and_the_image_before_stays(registry: Host, engine: str) -> None:
    web = registry
    tag = f"localhost:5000/{engine}:latest"
    web.root("docker tag $(docker image ls --quiet localhost/paddock/archive | head -n 1) source:1")
    first = _pushes(web, tag, "first")
    web.becomes("web", runtime=engine, container={"base": tag, "install": True})
    web.up()
    status = json.loads(web.paddock("status", "--json").stdout)[0]
    assert status["image"] == first
    assert datetime.fromisoformat(status["pulled"]) <= datetime.now(UTC)
    web.installs_something()
    web.inside("echo precious >/data/kept")
    container = web.id()

    second = _pushes(web, tag, "second")
    if engine == "docker":  # it has pushed the image, so it knows it under this name already
        web.root(f"docker tag $({_running_image(web)}) {tag}")
    assert "nothing to do" in web.paddock("up").stdout
    assert (web.id(), web.inside("cat /mark")) == (container, "first")

    # A person pulls it: the container stays, and the plan says that it is not the newest.
    web.root(f"{engine} pull --quiet {tag}")
    assert f"the container runs {first[:19]}, and {tag} is {second[:19]} now" in web.plan()
    assert "nothing to do" in web.paddock("up").stdout
    assert web.id() == container

    web.paddock("up", "--pull")
    assert web.inside("cat /mark /data/kept").split() == ["second", "precious"]
    assert not web.has_installed()
    assert json.loads(web.paddock("status", "--json").stdout)[0]["image"] == second
    container = web.id()
    said = web.paddock("up", "--pull")
    assert f"{tag} did not change, it is {second}" in said.stderr
    assert web.id() == container

    # The image before is kept by a name of its own, until a third one works.
    running = web.root(_running_image(web))
    before = next(name for name in _kept(web) if name.partition(":")[2][:16] not in running)
    web.agent["container"]["base"] = before
    web.up()
    assert web.inside("cat /mark /data/kept").split() == ["first", "precious"]
    web.agent["container"]["base"] = tag
    web.up()
    assert web.inside("cat /mark") == "second"
    _pushes(web, tag, "third")
    web.paddock("up", "--pull")
    assert web.inside("cat /mark /data/kept").split() == ["third", "precious"]
    assert len(_kept(web)) == 2
    assert before not in _kept(web)
    assert tag in web.images()
    web.paddock("down")
    assert _kept(web) == []
    assert tag in web.images()


def _kept(web: Host) -> list[str]:
    return [name for name in web.images() if name.startswith("localhost/paddock/kept:")]


def _running_image(web: Host) -> str:
    return f"{web.engine} container inspect --format '{{{{.Image}}}}' paddock-home_{web.name}"
