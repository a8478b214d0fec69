"""``paddock sbom`` prints what an agent runs, with the packages of a real machine: this one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Paddock
from paddock.base.errors import PaddockError
from paddock.base.process import run
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import ask
from paddock.onboard.code.packages import InventorySeen, ReportInventory
from paddock.verbs import sbom

FILE = """\
project: home
places: {here: {host: {}}}
agents:
  hermes:
    kind: hermes
    version: 0.19.0
    place: here
    runtime: process
    settings: {model: {provider: anthropic}}
    secrets: {ANTHROPIC_API_KEY: {env: NONE_IS_SET}}
  web: {kind: service, command: [/bin/true], place: here, runtime: process}
"""
with_dpkg = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="this machine has no dpkg")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    return path


def parts(printed: str) -> dict[str, list[dict[str, Any]]]:
    bill = json.loads(printed)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    return {each["name"]: each["components"] for each in bill["components"]}


@with_dpkg
def test_sbom_of_an_agent_has_its_code_and_the_packages_of_its_machine(paddock: Paddock, file: Path) -> None:
    said = paddock("sbom", "hermes", "-f", str(file))
    assert said.code == 0, said.err
    code, system = parts(said.out).values()
    assert any(each["name"] == "hermes-agent" and each["version"] == "0.19.0" for each in code)
    of_dpkg = run(["dpkg-query", "-W", "-f", "${Version}", "dpkg"]).out
    assert [each["version"] for each in system if each["name"] == "dpkg"] == [of_dpkg]


@with_dpkg
def test_sbom_of_an_agent_without_a_code_tree_has_the_packages_of_its_machine(paddock: Paddock, file: Path) -> None:
    assert len(parts(paddock("sbom", "web", "-f", str(file)).out)) == 1


def test_sbom_of_the_wheel_needs_no_file(paddock: Paddock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bill = json.loads(paddock("sbom", "--wheel").out)
    assert {"httpx", "pydantic"} <= {each["name"] for each in bill["components"]}


@pytest.mark.parametrize("words", [(), ("hermes", "--wheel")])
def test_sbom_asks_for_an_agent_or_the_wheel(paddock: Paddock, words: tuple[str, ...]) -> None:
    said = paddock("sbom", *words)
    assert (said.code, said.err) == (2, "error: name an agent, or give --wheel, and not both\n")


def reported(manifest: Path) -> sbom.Inventory:
    told = ask(LocalGuest(), "listing the packages", ReportInventory(str(manifest)), into=InventorySeen)
    return sbom.inventory_of(told)


def test_the_packages_of_a_template_are_those_of_its_manifest(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest"
    # As earlier versions wrote it, and with source packages. The lock of the code has the Python packages.
    manifest.write_text("dpkg bash 5.2.15-2\ndpkg libssl3 3.0.15 openssl\npip aiohttp 3.14.5\n")
    found = reported(manifest)
    assert found.of_template
    assert found.packages == [("dpkg", "bash", "5.2.15-2", ""), ("dpkg", "libssl3", "3.0.15", "openssl")]


@with_dpkg
def test_without_a_template_the_packages_are_those_that_are_installed(tmp_path: Path) -> None:
    found = reported(tmp_path / "none")
    assert not found.of_template
    status = "${db:Status-Status} ${Package}\\n"
    listed = run(["dpkg-query", "-W", "-f", status]).out.splitlines()
    installed = {line.split()[1] for line in listed if line.startswith("installed ")}
    assert {name for _, name, _, _ in found.packages} == installed


def test_a_hostile_manifest_is_refused(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest"
    for line in (b"dpkg bash \x1b[31m", b"dpkg bash 5.2\xff", b"rpm bash " + b"5" * 5000, b"dpkg bash"):
        manifest.write_bytes(b"dpkg dpkg 1.21\n" + line + b"\n")
        with pytest.raises(PaddockError, match="unexpected line"):
            reported(manifest)
    manifest.write_text("".join(f"dpkg p{number} 1\n" for number in range(30_000)))
    with pytest.raises(PaddockError, match="too long"):
        reported(manifest)
