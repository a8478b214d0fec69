"""Whole bundles, kept as files to review. A script of the package appears there by its name."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import paddock
from cases import DATA
from exposure import exposure
from paddock.base.secret import Secret
from paddock.channels import sent
from paddock.channels.sent import program
from paddock.file.agent_id import AgentId
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.onboard.program.frozen import encoded
from paddock.runtimes import egress
from paddock.runtimes.bundle import Bundle, BundleFile, secrets_digest
from paddock.runtimes.contract import Runtime
from paddock.runtimes.engine.runtime import Engine
from paddock.runtimes.process.runtime import ForegroundProcess
from paddock.runtimes.systemd.confine import word
from paddock.runtimes.systemd.runtime import Systemd

HERMES = AgentId("home", "hermes")
AGENT = HermesSpec.model_validate(
    {
        "kind": "hermes",
        "version": "0.19.0",
        "place": "home",
        "settings": {
            "model": {"provider": "custom:litellm", "default": "gpt-5-mini"},
            "providers": {"litellm": {"base_url": "http://192.0.2.22:4000/v1", "key_env": "LITELLM_API_KEY"}},
            "security": {"tirith_enabled": True},
        },
        "environment": {"TZ": "Europe/Rome", "GREETING": 'say "100%" for $5 \\o/'},
        "secrets": {"LITELLM_API_KEY": {"env": "LITELLM_API_KEY"}},
    }
)


def engine(runtime: str, home: str | None = None, **container: object) -> Engine:
    mounts = [{"host": "/srv/library", "path": "/library", "read_only": True}]
    spec = {**AGENT.model_dump(by_alias=True), "runtime": runtime, "container": container, "mounts": mounts}
    return Engine(HERMES, HermesSpec.model_validate(spec), Path(), home)


def limited(egress: object, runtime: str = "systemd", **more: object) -> HermesSpec:
    """The agent with limited connections."""
    spec = {**AGENT.model_dump(by_alias=True), "network": {"egress": egress}, "runtime": runtime, **more}
    return HermesSpec.model_validate(spec)


def package_files() -> Iterator[tuple[str, str]]:
    """The scripts that bundles hold as they are: their names and texts."""
    folder = Path(paddock.__file__).parent
    for path in sorted((folder / "onboard/shell").glob("*.sh")):
        yield f"onboard/shell/{path.name}", sent.text(path.name)
    onboard = ("loopback", "egress/families", "lease", "remains")
    programs = [folder / f"onboard/{name}.py" for name in onboard]
    for path in [*sorted((folder / "onboard").rglob("launch.py")), *programs]:
        yield str(path.relative_to(folder)), path.read_text()


PACKAGE_FILES = {
    **dict(package_files()),
    "runtimes/egress": program(egress.GUARD, egress.DEPLOYED),
    "onboard/enter": program("paddock.onboard.enter"),
}


def shown(content: str) -> str:
    """A file of a bundle as the golden data has it: a text of the package is replaced by its name."""
    for name, text in PACKAGE_FILES.items():
        if content == text:
            return f"<{name}>\n"
        content = content.replace(shlex.quote(text), f"<{name}>")
    return content


def bundle_of(runtime: Runtime, *, mounted: bool) -> Bundle:
    tree = None if runtime.container and runtime.container.brings_code else "0123456789ab"
    workload = Hermes().workload(AGENT, runtime.inside, f"{runtime.paths.code}/{tree}" if tree else "")
    health, neighbours = Hermes().probes(AGENT, "", "").health, ["192.0.2.10", "pve.example.com"]
    return runtime.bundle(workload, tree, mounted=mounted, health=health, neighbours=neighbours)


@pytest.mark.parametrize(
    ("name", "runtime", "mounted"),
    [
        ("systemd-volume", Systemd(HERMES, AGENT), True),
        ("systemd-directory", Systemd(HERMES, AGENT), False),
        ("systemd-internet", Systemd(HERMES, limited("internet")), True),
        ("systemd-account", Systemd(HERMES, AGENT, "/home/someone"), False),
        ("process", ForegroundProcess(HERMES, AGENT), False),
        ("docker-base", engine("docker", base="debian:12", options=["--gpus", "all"], memory="3G", cpus=1.5), False),
        (
            "docker-list",
            Engine(
                HERMES,
                limited(["10.0.0.5:4000", "fd00::/8"], "docker", container={"base": "debian:12"}),
                Path(),
            ),
            False,
        ),
        (
            "docker-image-internet",
            Engine(
                HERMES,
                limited("internet", "docker", container={"image": "nousresearch/hermes-agent"}),
                Path(),
            ),
            True,
        ),
        ("podman-account", engine("podman", "/home/someone", base="debian:12"), False),
        ("podman-image", engine("podman", image="nousresearch/hermes-agent:latest", volumes=["/a:/b:ro"]), True),
    ],
)
def test_bundle(name: str, runtime: Runtime, mounted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/home/someone/.local/share")
    files = bundle_of(runtime, mounted=mounted).files
    found = "".join(f"==> {path} {file.mode:o}\n{shown(file.content)}" for path, file in sorted(files.items()))
    golden = DATA / "bundles" / f"{name}.txt"
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        golden.write_text(found)
    assert found == golden.read_text()


def test_a_word_of_a_unit_is_one_line() -> None:
    assert word('say "100%"\nand \\o/') == r'"say \"100%%\"\nand \\o/"'


def test_the_id_of_a_bundle_depends_on_its_content_alone() -> None:
    one = Bundle({"a": BundleFile("x"), "b": BundleFile("y")})
    same = Bundle({"b": BundleFile("y"), "a": BundleFile("x")})
    others = [
        Bundle({"a": BundleFile("x")}),
        Bundle({"a": BundleFile("x"), "b": BundleFile("z")}),
        Bundle({"a": BundleFile("x"), "b": BundleFile("y", executable=True)}),
        Bundle({"a": BundleFile("x"), "c": BundleFile("y")}),
    ]
    assert one.id == same.id
    assert one.id not in {other.id for other in others}


def test_a_bundle_is_sent_with_the_secrets_beside_it_and_not_in_it() -> None:
    secrets = {"LITELLM_API_KEY": Secret("canary-value-11")}
    bundle = bundle_of(Systemd(HERMES, AGENT), mounted=True)
    assert not any("canary" in file.content for file in bundle.files.values())
    given = encoded(
        bundle.sent(secrets, {"0": Secret("canary-value-12")}, version="0.19.0", distribution="hermes_agent")
    )
    assert {name for name, value in given.items() if "canary" in str(value)} == {"secrets", "secret_files"}
    assert given["secrets"] == 'LITELLM_API_KEY="canary-value-11"\n'
    assert given["secret_files"] == {"0": "canary-value-12"}
    assert given["files"].keys() == bundle.files.keys()


def test_the_digest_of_secrets_depends_on_each_value() -> None:
    secrets = {"A": Secret("1")}
    assert secrets_digest(secrets, {}) != secrets_digest({"A": Secret("2")}, {})
    assert secrets_digest(secrets, {"0": Secret("x")}) != secrets_digest(secrets, {"0": Secret("y")})


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_program_that_limits_connections_is_confined(tmp_path: Path) -> None:
    files = bundle_of(Systemd(HERMES, limited("internet")), mounted=False).files
    unit = tmp_path / "egress.service"
    unit.write_text(next(file.content for path, file in files.items() if path.endswith(".egress.service")))
    assert exposure(unit) <= 3.0
