"""An agent that goes back to a version runs in what that version ran in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.account_agent import AccountPlace
from live.images import root_with_shell
from paddock.core.deployment import Deployment
from paddock.core.on_machine import OnMachine
from paddock.core.resolve import locate
from paddock.core.version import as_version
from paddock.kinds import KINDS, load
from paddock.plan.version import Housing, Upgrade
from paddock.show.reporter import Reporter
from paddock.verbs.upgrade import said_before

OFFICIAL = "nousresearch/hermes-agent:latest"
MODEL = {"model": {"provider": "custom:x", "default": "m"}, "providers": {"x": {"base_url": "http://127.0.0.1:9/v1"}}}


def agent(folder: Path, **keys: Any) -> Deployment:
    """Return the agent of a file with these keys."""
    spec = {"kind": "hermes", "place": "here", "settings": MODEL, **keys}
    file = folder / "paddock.yaml"
    file.write_text(json.dumps({"project": "home", "places": {"here": {"host": {}}}, "agents": {"bee": spec}}))
    loaded = load(file)
    place: Any = AccountPlace()
    return Deployment(
        machine_side=OnMachine(),
        project="home",
        name="bee",
        spec=loaded.spec.agents["bee"],
        folder=folder,
        place=place,
        recipe=KINDS["hermes"],
        reporter=Reporter().of("bee"),
    )


@pytest.mark.parametrize(
    ("file", "version", "housing", "runtime", "container"),
    [
        (
            {"runtime": "docker", "container": {"image": OFFICIAL}},
            "0.19.0",
            Housing("docker", "debian:12"),
            "docker",
            "debian:12",
        ),
        ({"runtime": "docker", "container": {"image": OFFICIAL}}, "0.19.0", Housing("systemd"), "systemd", None),
        ({"runtime": "systemd", "version": "0.18.2"}, f"image {OFFICIAL}", Housing("docker"), "docker", OFFICIAL),
        (
            {"runtime": "podman", "version": "0.18.2", "container": {"base": "debian:13"}},
            "0.19.0",
            Housing("docker", "debian:12"),
            "docker",
            "debian:12",
        ),
        # A record of an earlier Paddock does not say what the version ran in.
        (
            {"runtime": "docker", "version": "0.18.2", "container": {"base": "debian:13"}},
            "0.19.0",
            Housing(),
            "docker",
            "debian:13",
        ),
        # What the machine says is not an image, and no runtime.
        (
            {"runtime": "docker", "version": "0.18.2", "container": {"base": "debian:13"}},
            "0.19.0",
            Housing("process", "--privileged"),
            "docker",
            "debian:13",
        ),
        (
            {"runtime": "docker", "version": "0.18.2", "container": {"base": "debian:13"}},
            "0.19.0",
            Housing("docker", "debian:12 --privileged"),
            "docker",
            "debian:13",
        ),
    ],
    ids=["image-to-base", "image-to-systemd", "systemd-to-image", "engine-and-base", "unknown", "hostile", "options"],
)
def test_a_version_runs_in_what_it_ran_in(
    tmp_path: Path, file: dict[str, Any], version: str, housing: Housing, runtime: str, container: str | None
) -> None:
    before = locate(as_version(agent(tmp_path, **file), version, housing))
    assert before.version == version
    assert before.spec.runtime == runtime
    found = before.runtime.container
    assert (found.image.name if found else None) == container


def test_a_base_from_an_archive_keeps_the_archive(tmp_path: Path) -> None:
    root_with_shell(tmp_path / "base.tar", None)
    container = {"base": "debian:12", "archive": "base.tar"}
    file = agent(tmp_path, runtime="docker", version="0.18.2", container=container)
    located = locate(file).runtime.container
    assert located
    same = as_version(file, "0.19.0", Housing("docker", located.image.name))
    assert same.spec.container == file.spec.container
    other = as_version(file, "0.19.0", Housing("docker", "debian:13"))
    assert (other.spec.container.base, other.spec.container.archive) == ("debian:13", None)


def test_a_rollback_writes_the_base_into_the_file(tmp_path: Path) -> None:
    last = Upgrade("0.19.0", f"image {OFFICIAL}", "b", "/backups", 7, housing=Housing("docker", "debian:12"))
    file = agent(tmp_path, runtime="docker", container={"image": OFFICIAL})
    assert said_before(file, last) == {
        "version": "0.19.0",
        "package": None,
        "container": {"image": None, "base": "debian:12", "archive": None},
    }
