"""The main process of a container's unit: it starts the container, and creates it again if someone has removed it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from paddock.channels.sent import text
from paddock.onboard.engine.images import layered_name

# An engine that keeps each container as a folder with its labels, and notes what it starts.
ENGINE = """#!/bin/sh
cd "$WORLD"
[ ! -e down ] || { echo 'Cannot connect to the Docker daemon' >&2; exit 1; }
for last; do :; done
case "$1 $2" in
    "container inspect")
        [ -d "containers/$last" ] || { echo "No such container: $last" >&2; exit 1; }
        case "$*" in
            *paddock.agent*) cat "containers/$last/agent" ;;
            *paddock.identity*) cat "containers/$last/identity" ;;
            *) echo "id-of-$last" ;;
        esac
        ;;
    "image inspect")
        [ -e "images/$last" ] || exit 1
        case "$*" in *Entrypoint*) printf '/init\\nmain wrapper\\n\\n' ;; *) echo "sha256:$last" ;; esac
        ;;
    "start --attach") echo "started $last" ;;
esac
"""
CREATE = """name=$1 image=$2
shift 2
mkdir -p "$WORLD/containers/$name"
echo home_bee >"$WORLD/containers/$name/agent"
echo schema=1 >"$WORLD/containers/$name/identity"
printf '[%s]' "$image" "$@" >"$WORLD/containers/$name/created"
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    here = tmp_path / "etc/home_bee/current"
    for folder in (here, tmp_path / "containers", tmp_path / "images", tmp_path / "bin"):
        folder.mkdir(parents=True)
    (tmp_path / "images/debian").touch()
    settings = {"ENGINE": "docker", "CONTAINER": "paddock-home_bee", "IMAGE": "debian", "TREE": "", "AGENT": "home_bee"}
    lines = [f'{name}="{value}"\n' for name, value in {**settings, "SERVICE": "docker.service"}.items()]
    (here / "bundle.env").write_text("".join(lines))
    (here / "create").write_text(CREATE)
    (here / "attach").write_text(text("attach.sh"))
    (tmp_path / "bin/docker").write_text(ENGINE)
    (tmp_path / "bin/docker").chmod(0o755)
    return tmp_path


def attach(world: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{world}/bin:{os.environ['PATH']}", "WORLD": str(world)}
    argv = ["/bin/sh", str(world / "etc/home_bee/current/attach")]
    return subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)


def container(world: Path, agent: str = "home_bee", identity: str = "schema=1") -> Path:
    found = world / "containers/paddock-home_bee"
    found.mkdir()
    (found / "agent").write_text(f"{agent}\n")
    (found / "identity").write_text(f"{identity}\n")
    return found


def test_an_existing_container_is_started(world: Path) -> None:
    container(world)
    done = attach(world)
    assert (done.stdout, done.stderr, done.returncode) == ("started paddock-home_bee\n", "", 0)
    assert (world / "etc/home_bee/container").read_text() == "id-of-paddock-home_bee\n"


def test_a_removed_container_is_created_again(world: Path) -> None:
    done = attach(world)
    assert done.stdout == "started paddock-home_bee\n", done.stderr
    assert "was removed; it is created again, without the software installed in it" in done.stderr
    assert (world / "containers/paddock-home_bee/created").read_text() == "[debian][/init][main wrapper]"
    assert (world / "etc/home_bee/container").read_text() == "id-of-paddock-home_bee\n"


@pytest.mark.parametrize("lacks_python", [True, False], ids=["made", "base"])
def test_an_agent_with_code_gets_the_image_that_has_python(world: Path, *, lacks_python: bool) -> None:
    settings = world / "etc/home_bee/current/bundle.env"
    base = "debian-with-a-long-id"
    settings.write_text(settings.read_text().replace('TREE=""', 'TREE="t1"').replace('"debian"', f'"{base}"'))
    (world / "images" / base).touch()
    made = layered_name(base)
    if lacks_python:
        (world / "images" / made).parent.mkdir(parents=True)
        (world / "images" / made).touch()
    attach(world)
    created = (world / "containers/paddock-home_bee/created").read_text()
    assert created == f"[{made if lacks_python else base}][/init][main wrapper]"


def test_a_removed_container_without_its_image_names_the_command(world: Path) -> None:
    (world / "images/debian").unlink()
    done = attach(world)
    assert done.returncode == 78, "a restart would not help"
    assert "its image debian too; `paddock up` creates both again" in done.stderr


def test_an_engine_that_is_down_is_no_removed_container(world: Path) -> None:
    (world / "down").touch()
    done = attach(world)
    assert done.returncode == 1, "systemd tries it again"
    assert done.stderr == "Cannot connect to the Docker daemon\n"
    assert not list((world / "containers").iterdir())


@pytest.mark.parametrize(("agent", "identity"), [("home_bee", ""), ("home_ant", "schema=1")], ids=["person", "ant"])
def test_a_container_of_someone_else_is_not_started(world: Path, agent: str, identity: str) -> None:
    container(world, agent, identity)
    done = attach(world)
    assert (done.stdout, done.returncode) == ("", 78)
    assert "is not of this agent" in done.stderr
