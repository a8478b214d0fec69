"""The samples of pvebox's README work."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

import pvebox
from pvebox.cluster.assembly import memory_cluster
from pvebox.console.command import make_parser
from sandbox.inprocess import Api

README = Path(pvebox.__file__).with_name("README.md")
CURL_DATA = ("-d", "--data-urlencode")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if "pvebox " in line]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_command_line_accepts_the_samples(line: str) -> None:
    command = re.sub(r"^\w+=\$\((.*)\)$", r"\1", line)
    words = shlex.split(command, comments=True)
    assert words[0] == "pvebox"
    make_parser("pvebox").parse_args(words[1:])


def test_the_commands_in_the_text_exist() -> None:
    verbs = set(re.findall(r"`pvebox\s+([a-z]+)", README.read_text()))
    assert len(verbs) > 5
    for verb in verbs:
        with pytest.raises(SystemExit) as ended:
            make_parser("pvebox").parse_args([verb, "--help"])
        assert ended.value.code == 0


def test_the_sample_of_a_fixture_starts_a_cluster_with_its_container(tmp_path: Path) -> None:
    whole, state = blocks("json")
    cluster = memory_cluster(tmp_path / "state", json.loads(whole.replace("{\n", "{\n" + state, 1)))
    assert cluster.configs.vmids() == [100]
    assert cluster.runtime.containers.running(100)
    assert cluster.access.allows("ci@pve!tests", "/vms/100", ["VM.Audit"])


def test_the_sample_with_curl_creates_a_container(tmp_path: Path) -> None:
    api = Api(tmp_path / "state")
    (sample,) = [block for block in blocks("sh") if "ostemplate" in block]
    words = shlex.split(sample.replace("\\\n", " ").splitlines()[0])
    pairs = itertools.pairwise(words)
    fields = [value if option == "-d" else quoted(value) for option, value in pairs if option in CURL_DATA]
    secret = api.cluster.access.tokens["root@pam!sandbox"].secret
    form = "application/x-www-form-urlencoded"
    headers = {"Authorization": f"PVEAPIToken=root@pam!sandbox={secret}", "Content-Type": form}
    answer = api.post_body("/nodes/pve/lxc", headers, "&".join(fields).encode())
    assert answer.status_code == 200, answer.text
    assert api.cluster.tasks.wait(answer.json()["data"]).exitstatus == "OK"
    assert api.data("GET", "/nodes/pve/lxc/100/config")["features"] == "nesting=1"


def quoted(field: str) -> str:
    """Return a form field as curl writes it for --data-urlencode."""
    name, _, value = field.partition("=")
    return f"{name}={quote(value, safe='')}"


def test_the_sample_of_a_test_passes(tmp_path: Path) -> None:
    sample = next(block for block in blocks("python") if "pytest" in block)
    (tmp_path / "test_sample.py").write_text(sample)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_sample.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_sample_of_a_client_is_python() -> None:
    for sample in blocks("python"):
        compile(sample, "sample", "exec")


def test_the_readme_names_what_the_help_names() -> None:
    text = README.read_text()
    for words in ("bridge", "dnsmasq", "iptables", "ip_forward", "/run/pvebox", "~/.cache/pvebox", "127.0.0.1"):
        assert words in text


def test_links_lead_to_files_or_to_the_web() -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", README.read_text()):
        assert "://" in target or (README.parent / target).exists(), target
