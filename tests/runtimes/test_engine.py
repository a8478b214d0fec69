"""The runtimes docker and podman: the identity of containers, image archives and rendered files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
from ruamel.yaml import YAML

from paddock.base.errors import BadInput, PaddockError
from paddock.base.process import Result
from paddock.channels import Guest
from paddock.core.container import try_image
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import AgentSpec, RuntimeName
from paddock.kinds import agent_from
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.kinds.service import Service
from paddock.kinds.workload import Workload
from paddock.runtimes.engine.archive import Archive
from paddock.runtimes.engine.dialect import dialect_of
from paddock.runtimes.engine.runtime import Engine

BASE: dict[str, Any] = {
    "kind": "hermes",
    "version": "0.19.0",
    "place": "home",
    "runtime": "docker",
    "container": {"base": "debian:12"},
}


def spec_of(**changes: Any) -> AgentSpec:
    container = {**BASE["container"], **changes.pop("container", {})}
    return agent_from({**BASE, **changes, "container": container})


def workload_of(engine: Engine, spec: AgentSpec) -> Workload:
    assert isinstance(spec, HermesSpec)
    return Hermes().workload(spec, engine.inside, "/opt/paddock/.store/t")


def identity_of(**changes: Any) -> str:
    spec = spec_of(**changes)
    engine = Engine(AgentId("home", "hermes"), spec, Path())
    return engine.container.identity(workload_of(engine, spec))


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"toolsets": ["all"]}},
        {"environment": {"TZ": "Europe/Rome"}},
        {"secrets": {"A_KEY": {"env": "A_KEY"}}},
        {"documents": {"SOUL.md": "You are brief."}},
        {"service": {"restart": "no", "args": ["-v"]}},
        {"packages": ["ripgrep"]},
        {"user": {"name": "other", "uid": 12000}},
        {"container": {"sudo": True}},
        {"connectors": {"api_server": {"port": 9000}}},
        {"container": {"install": True}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_changes_outside_the_identity_keep_the_container(changes: dict[str, Any]) -> None:
    assert identity_of(**changes) == identity_of()


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("image", {"container": {"base": "debian:13"}}),
        ("volumes", {"container": {"volumes": ["/home/user/projects:/projects"]}}),
        ("volumes", {"mounts": [{"host": "/srv", "path": "/srv"}]}),
        ("volumes", {"state": {"path": "/var/lib/hermes"}}),
        ("options", {"container": {"options": ["--gpus", "all"]}}),
        ("limits", {"container": {"memory": "1G"}}),
        ("limits", {"container": {"cpus": 1.5}}),
        ("limits", {"container": {"shm_size": "2G"}}),
    ],
)
def test_each_part_of_the_identity_requires_a_new_container(part: str, changes: dict[str, Any]) -> None:
    before, after = (dict(word.split("=") for word in each.split()) for each in (identity_of(), identity_of(**changes)))
    assert [name for name in before if before[name] != after[name]] == [part]


def test_without_root_another_uid_requires_a_new_container() -> None:
    first, second = (
        Engine(
            AgentId("home", "hermes"), spec_of(runtime="podman", user={"name": "hermes", "uid": uid}), Path(), "/home/x"
        )
        for uid in (10000, 12000)
    )
    before, after = (
        dict(word.split("=") for word in engine.container.identity(workload_of(engine, engine.spec)).split())
        for engine in (first, second)
    )
    assert [name for name in before if before[name] != after[name]] == ["account"]


def test_each_image_gets_a_code_tree_of_its_own() -> None:
    tree = Hermes().code(HermesSpec.model_validate(BASE), Path())
    names = {
        Engine(AgentId("home", "hermes"), spec_of(container={"base": base}), Path()).container.tree(tree)
        for base in ("debian:12", "debian:13")
    }
    assert len(names) == 2


def test_an_image_is_rejected_for_a_kind_that_has_none() -> None:
    spec = agent_from(
        {"kind": "service", "place": "p", "runtime": "docker", "command": ["x"], "container": {"image": "x"}}
    )
    engine = Engine(AgentId("home", "web"), spec, Path())
    workload = Service().workload(spec, engine.inside, "")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="web is a service, which has no image of its own"):
        engine.bundle(workload, None, mounted=False)


@pytest.mark.parametrize(
    ("image", "found_as"),
    [
        ("debian:12", "docker.io/library/debian:12"),
        ("nousresearch/hermes-agent:latest", "docker.io/nousresearch/hermes-agent:latest"),
        ("ghcr.io/a/b", "ghcr.io/a/b"),
        ("registry:5000/b", "registry:5000/b"),
        ("localhost/b", "localhost/b"),
    ],
)
def test_podman_gets_the_registry_that_docker_assumes(image: str, found_as: str) -> None:
    assert dialect_of(RuntimeName.PODMAN).reference(image) == found_as
    assert dialect_of(RuntimeName.DOCKER).reference(image) == image


@pytest.mark.parametrize(
    ("image", "found_as"),
    [
        ("debian:12@sha256:0a", "debian@sha256:0a"),
        ("debian@sha256:0a", "debian@sha256:0a"),
        ("registry:5000/b@sha256:0a", "registry:5000/b@sha256:0a"),
        ("registry:5000/b:1@sha256:0a", "registry:5000/b@sha256:0a"),
    ],
)
def test_a_tag_is_dropped_if_there_is_a_digest(image: str, found_as: str) -> None:
    assert dialect_of(RuntimeName.DOCKER).reference(image) == found_as


def tar_of(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


def test_an_archive_is_recognised_by_its_content(tmp_path: Path) -> None:
    assert Archive.examine(tar_of(tmp_path / "a.tar", "manifest.json", "abc/layer.tar")).verb == "load"
    assert Archive.examine(tar_of(tmp_path / "b.tar", "./bin", "./etc/passwd", "./usr/bin/sh")).verb == "import"
    with pytest.raises(BadInput, match="contains neither an image nor a root filesystem"):
        Archive.examine(tar_of(tmp_path / "c.tar", "notes.txt"))


def test_a_truncated_archive_is_rejected_before_it_is_sent(tmp_path: Path) -> None:
    whole = tar_of(tmp_path / "whole.tar", "./bin", "./etc", "./usr", *(f"./usr/{n}" for n in range(2000)))
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(BadInput, match=r"cut\.tar is not a complete tar archive"):
        Archive.examine(cut)
    with pytest.raises(BadInput, match="No such file"):
        Archive.at(tmp_path / "none.tar")


def test_an_image_without_a_layer_is_rejected_before_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "hollow.tar"
    manifest = json.dumps([{"Config": "c.json", "Layers": ["a/layer.tar", "b/layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for name, content in (("c.json", b"{}"), ("manifest.json", manifest), ("a/layer.tar", b"")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    with pytest.raises(BadInput, match=r"hollow\.tar is not a complete image: it has no b/layer\.tar"):
        Archive.examine(path)


def test_an_archive_with_other_content_is_another_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one = Archive.at(tar_of(tmp_path / "a.tar", "bin", "etc", "usr"))
    assert Archive.at(tmp_path / "a.tar") == one
    other = Archive.at(tar_of(tmp_path / "a.tar", "bin", "etc", "usr", "usr/x"))
    assert one.name != other.name


@pytest.mark.parametrize(
    ("health", "said"),
    [
        ({}, 'exec /bin/sh "${0%/*}/enter" true\n'),
        ({"command": ["pg_isready", "-q"]}, 'exec /bin/sh "${0%/*}/enter" pg_isready -q\n'),
        ({"http": "http://127.0.0.1:8123/", "status": 401}, "http://127.0.0.1:8123/ 401\n"),
        ({"port": 5432}, " 5432\n"),
    ],
    ids=["runs", "command", "page", "port"],
)
def test_the_health_command_asks_what_the_recipe_declares(health: dict[str, Any], said: str) -> None:
    spec = agent_from(
        {
            **{"kind": "service", "place": "p", "runtime": "docker", "command": ["x"]},
            **{"container": {"base": "debian:12"}, "health": health},
        }
    )
    engine = Engine(AgentId("home", "web"), spec, Path())
    workload = Service().workload(spec, engine.inside, "")  # type: ignore[arg-type]
    probes = Service().probes(spec, "", "")  # type: ignore[arg-type]
    files = engine.bundle(workload, None, mounted=False, health=probes.health).files
    assert files["health"].content.endswith(said)
    assert "--health-cmd '/bin/sh /etc/paddock/home_web/current/health'" in files["create"].content


def compose_file(**container: Any) -> str:
    spec = agent_from({**BASE, "container": container})
    engine = Engine(AgentId("home", "hermes"), spec, Path())
    return engine.bundle(workload_of(engine, spec), "t", mounted=False).files["docker-compose.yml"].content


COMPOSED = [
    {"base": "debian:12", "memory": "3G", "cpus": 2, "volumes": ["/a:/b:ro"]},
    {"image": "nousresearch/hermes-agent:latest"},
]


@pytest.mark.parametrize("container", COMPOSED)
def test_the_compose_file_has_only_keys_that_both_compose_versions_know(container: dict[str, Any]) -> None:
    tree = YAML(typ="safe").load(compose_file(**container))
    known = {
        *("image", "container_name", "labels", "network_mode", "stop_grace_period", "shm_size", "volumes"),
        *("mem_limit", "cpus", "entrypoint", "command", "env_file", "healthcheck"),
    }
    assert tree.keys() == {"services"}
    assert tree["services"]["home_hermes"].keys() <= known


class _Image:
    """A machine on which throwaway containers find the programs of one folder."""

    name = "hive"

    def __init__(self, programs: Path) -> None:
        self._programs = programs

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        argv = argv[argv.index("--entrypoint") + 1 :]
        done = subprocess.run(
            [argv[0], *argv[2:]], env={"PATH": str(self._programs)}, capture_output=True, text=True, check=False
        )
        return Result(tuple(argv), done.returncode, done.stdout, done.stderr, 0)


@pytest.mark.parametrize(
    ("hermes", "told"),
    [
        (None, "ubuntu:24.04 has no hermes in it; write base: for a distribution"),
        ("echo 'Hermes Agent v0.19.0'", None),
        ("echo 'ImportError: no module named yaml' >&2; exit 1", "ImportError: no module named yaml"),
    ],
)
def test_an_image_is_tried_with_the_agent_in_it(tmp_path: Path, hermes: str | None, told: str | None) -> None:
    if hermes:
        (tmp_path / "hermes").write_text(f"#!/bin/sh\n{hermes}\n")
        (tmp_path / "hermes").chmod(0o755)
    spec = agent_from({**BASE, "container": {"image": "ubuntu:24.04"}})
    engine = Engine(AgentId("home", "hermes"), spec, Path())
    tried = pytest.raises(PaddockError, match=told) if told else nullcontext()
    with tried:
        try_image(cast(Guest, _Image(tmp_path)), engine.container, "ubuntu:24.04", workload_of(engine, spec))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_the_directory_of_a_volume_is_made_for_the_agent(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\n")
    (tmp_path / "docker").chmod(0o755)
    new, old, books = (tmp_path / name for name in ("a/new", "old", "books"))
    old.mkdir()
    spec = spec_of(container={"volumes": [f"{new}:/new", f"{old}:/old", f"{books}:/books:ro", "cache:/cache"]})
    engine = Engine(AgentId("home", "hermes"), spec, Path())
    create = engine.container.files(workload_of(engine, spec))["create"]
    script = ["sh", "-c", f"umask 077\n{create}", "create", "paddock-home_hermes", "debian:12"]
    environment = {"PATH": f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin"}
    subprocess.run(script, env=environment, check=True)
    assert (new.stat().st_uid, new.stat().st_gid, new.stat().st_mode & 0o777) == (10000, 10000, 0o755)
    assert new.parent.stat().st_uid == old.stat().st_uid == 0
    assert not books.exists()
