"""Packages on machines with apt, with dnf and with neither: what counts as there, and which commands install.

The programs of the distributions are stand-ins that record how they are called. tests/live/test_other_hosts.py runs the
real apt, and a Debian without dpkg.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from paddock.channels.sent import text
from paddock.onboard.code.packages import BY_DNF, PROGRAMS, present
from paddock.onboard.program import programs as on_machine

# The program on the machine asks about several packages at once, and the shell about one.
DPKG = """#!/bin/sh
format=$3
shift 3
code=0
for package; do
    case " $(cat "${0%/*}/installed") " in *" $package "*) ;; *) code=1 && continue ;; esac
    case "$format" in *Package*) echo "$package installed" ;; *) printf installed ;; esac
done
exit $code
"""
RPM = """#!/bin/sh
for package; do :; done
case " $(cat "${0%/*}/installed") " in *" $package "*) ;; *) exit 1 ;; esac
"""
RECORDS = '#!/bin/sh\necho "${0##*/} $*" >>"$CALLS"\n'
FAMILIES = {
    "debian": {"apt-get": RECORDS, "dpkg-query": DPKG},
    "fedora": {"dnf": RECORDS, "rpm": RPM},
    "other": {},
    "other with rpm": {"rpm": RPM},
}


@dataclass
class Machine:
    """The programs of a distribution in a folder that is the whole PATH."""

    folder: Path

    def has(self, program: str, content: str = "#!/bin/sh\n") -> None:
        (self.folder / program).write_text(content)
        (self.folder / program).chmod(0o755)

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.folder), "CALLS": str(self.folder / "calls")}
        argv = [shutil.which("sh") or "", "-c", f"{text('package_manager.sh')}\n{script}"]
        return subprocess.run(argv, env=environment, capture_output=True, text=True)

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines() if (self.folder / "calls").exists() else []


def machine(tmp_path: Path, family: str, installed: str = "", programs: str = "") -> Machine:
    found = Machine(tmp_path / "bin")
    found.folder.mkdir()
    (found.folder / "installed").write_text(installed)
    for tool in ("cat", "paste", "rm"):
        (found.folder / tool).symlink_to(shutil.which(tool) or "")
    for name, content in FAMILIES[family].items():
        found.has(name, content)
    for program in programs.split():
        found.has(program)
    return found


@pytest.mark.parametrize(
    ("family", "installed", "programs", "package", "there"),
    [
        ("debian", "git", "", "git", True),
        ("debian", "", "", "git", False),
        ("debian", "", "git", "git", True),  # built by hand
        ("debian", "", "rg", "ripgrep", True),
        ("debian", "ripgrep", "", "ripgrep", True),
        ("debian", "", "nft", "nftables", True),
        ("debian", "", "docker", "docker.io", True),
        ("debian", "", "newuidmap", "uidmap", True),
        ("debian", "bc", "", "bc", True),
        ("debian", "", "bc", "bc", False),  # the file asks for a package, and there is a database of packages
        ("fedora", "git", "", "git", True),
        ("fedora", "", "rg", "ripgrep", True),
        ("fedora", "moby-engine", "", "docker.io", True),
        ("fedora", "docker.io", "", "docker.io", False),
        ("fedora", "shadow-utils", "", "uidmap", True),
        ("fedora", "bc", "", "bc", True),
        ("fedora", "", "bc", "bc", False),
        ("other", "", "git rg", "git", True),
        ("other", "", "git rg", "ripgrep", True),
        ("other", "", "", "ripgrep", False),
        ("other", "", "ripgrep", "ripgrep", False),  # the package's name is not the program's
        ("other", "", "bc", "bc", True),
        ("other", "", "", "bc", False),
        ("other", "", "", "test", False),  # a command of the shell is no program
        ("other", "", "", "has_package", False),
        ("other with rpm", "bc", "", "bc", False),  # nothing could install it, so programs decide
    ],
)
def test_what_counts_as_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    family: str,
    installed: str,
    programs: str,
    package: str,
    there: bool,
) -> None:
    """The shell that installs packages, and the program that reports them, agree."""
    found = machine(tmp_path, family, installed, programs)
    assert (found.run(f"has_package {package}").returncode == 0) == there
    monkeypatch.setenv("PATH", str(found.folder))
    monkeypatch.setattr(on_machine, "SYSTEM_PATH", str(found.folder))  # where root looks for programs
    assert present([package, "no-such-package"]) == [package] * there


def test_the_shell_and_the_program_know_the_same_packages(tmp_path: Path) -> None:
    """Each package that one of them names is asked of the shell."""
    library = text("package_manager.sh")
    functions = re.findall(r"^(?:program_of|named_by_dnf)\(\) \{.*?^\}", library, re.MULTILINE | re.DOTALL)
    labels = [label for each in functions for label in re.findall(r"^ +([\w.| -]+)\) ", each, re.MULTILINE)]
    packages = {*PROGRAMS, *BY_DNF, *(name for label in labels for name in label.split(" | "))}
    assert {"git", "podman", "docker.io", "uidmap"} <= packages
    found = machine(tmp_path, "other")
    by_program = {each: found.run(f"program_of {each}").stdout.strip() for each in packages}
    assert {name: program for name, program in by_program.items() if program} == PROGRAMS
    by_dnf = {each: found.run(f"named_by_dnf {each}").stdout.strip() for each in packages}
    assert {name: named for name, named in by_dnf.items() if named != name} == BY_DNF


@pytest.mark.parametrize(
    ("family", "installer", "command", "calls"),
    [
        (
            "debian",
            "apt-get",
            "apt-get install -y git docker.io",
            [
                "apt-get update -qq",
                "apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 -- git docker.io",
            ],
        ),
        (
            "fedora",
            "dnf",
            "dnf install -y git moby-engine",
            ["dnf install -y -q --setopt=install_weak_deps=False git moby-engine"],
        ),
        ("other", "none", "", []),
    ],
)
def test_what_installs_packages(tmp_path: Path, family: str, installer: str, command: str, calls: list[str]) -> None:
    found = machine(tmp_path, family, "git docker.io moby-engine")
    assert found.run("installer").stdout.strip() == installer
    assert found.run("install_command git docker.io").stdout.strip() == command
    installed = found.run("install_packages git docker.io")
    assert found.calls == calls
    assert (installed.returncode == 0) == bool(calls)
    if not calls:
        assert installed.stderr == "there is neither apt-get nor dnf here to install packages with: git docker.io\n"


@pytest.mark.parametrize("family", ["debian", "fedora"])
def test_a_package_that_is_still_missing_is_an_error(tmp_path: Path, family: str) -> None:
    """The plan would want it again for ever: it is virtual, or another package brings it."""
    installed = machine(tmp_path, family).run("install_packages awk")
    assert installed.returncode == 1
    assert "and still there is no package awk: name the one that is installed" in installed.stderr


@pytest.mark.parametrize(("family", "failing"), [("debian", "apt-get"), ("fedora", "dnf")])
def test_a_failed_installation_fails(tmp_path: Path, family: str, failing: str) -> None:
    found = machine(tmp_path, family, "git")
    found.has(failing, "#!/bin/sh\necho no mirror >&2\nexit 100\n")
    failed = found.run("set -e\ninstall_packages git")
    assert (failed.returncode, failed.stderr) == (100, "no mirror\n")
