"""Packages of the distribution: which are here, and what a template has.

Installing them is shell (`shell/packages.sh`): Python itself may be one of them.
"""

from __future__ import annotations

import os
import re

from paddock.onboard.files import lines, make_folder, names, remove_tree, write
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.programs import found, run
from paddock.onboard.program.refusal import FAILED, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paddock.onboard.program.serve import Payload

MOST = 20_001
# The programs for which Paddock asks for a package. `shell/package_manager.sh` has the same ones; a test compares them.
PROGRAMS = {
    "chromium": "/usr/bin/chromium",  # the recipe that uses it names this path
    "git": "git",
    "podman": "podman",
    "runc": "runc",
    "docker.io": "docker",
    "nftables": "nft",
    "ripgrep": "rg",
    "uidmap": "newuidmap",
}
BY_DNF = {"docker.io": "moby-engine", "uidmap": "shadow-utils"}  # names in Fedora and its relatives
_MANIFEST = "/opt/paddock/.manifest"  # of a template
_VALUE = re.compile(r"""["']?([A-Za-z0-9._-]*)["']?""")


def installer() -> str:
    """Return the program that installs packages here, or none."""
    return next((name for name in ("apt-get", "dnf") if found(name)), "none")


def present(packages: Sequence[str]) -> list[str]:
    """Return those packages that are here.

    A program counts, whoever installed it, if Paddock asks for the package. Without a database of packages, a program
    with the name of the package is all that can be looked for.
    """
    by_program = {each for each in packages if each in PROGRAMS and found(PROGRAMS[each])}
    asked = [each for each in packages if each not in by_program]
    known: set[str] = set()
    if asked and (manager := installer()) == "apt-get":
        printed = run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *asked]).out
        known = {line.split()[0] for line in printed.split("\n") if line.endswith(" installed")}
    elif asked and manager == "dnf":
        known = {each for each in asked if run(["rpm", "-q", "--quiet", "--whatprovides", BY_DNF.get(each, each)]).ok}
    elif asked:
        known = {each for each in asked if each not in PROGRAMS and found(each)}
    return [each for each in packages if each in by_program or each in known]


def software() -> Iterator[str]:
    """Yield KIND NAME VERSION [SOURCE] of each package of the distribution. Advisories of Debian name the source."""
    if installer() == "apt-get":
        form = "${db:Status-Status} dpkg ${Package} ${Version} ${source:Package}\n"
        for line in run(["dpkg-query", "-W", "-f", form]).out.split("\n"):
            if line.startswith("installed "):
                yield line.removeprefix("installed ")
    elif installer() == "dnf":
        form = "rpm %{NAME} %{VERSION}-%{RELEASE}\n"
        yield from filter(None, run(["rpm", "-qa", "--queryformat", form]).out.split("\n"))


@frozen
class InventorySeen:
    """Packages, as lines KIND NAME VERSION [SOURCE]."""

    of_template: bool
    system: str  # ID and release of the distribution
    packages: list[str]


@frozen
class ReportInventory:
    """Report the packages of the distribution: those of the template that the machine was made from, or its own."""

    manifest: str = _MANIFEST

    def perform(self, _: Payload) -> InventorySeen:
        system = " ".join(_of_release(name) for name in ("ID", "VERSION_ID"))
        if not os.path.isfile(self.manifest):
            return InventorySeen(False, system, list(software())[:MOST])
        listed = [line for line in lines(self.manifest) if line.startswith(("dpkg ", "rpm "))]
        return InventorySeen(True, system, listed[:MOST])


def _of_release(name: str) -> str:
    """Return a value of os-release, which is read as text and not run."""
    for line in lines("/etc/os-release"):
        key, _, value = line.partition("=")
        if key == name and (match := _VALUE.fullmatch(value)):
            return match[1]
    return ""


@frozen
class FinishTemplate:
    """Finish a template: delete caches, logs and data of engines; write the manifest, each package with its version."""

    programs: tuple[str, ...] = ()  # that machines made from it need

    def perform(self, _: Payload) -> str:
        for program in self.programs:
            if not found(program):
                raise Refusal(f"there is no {program}: is a package missing under packages:?", FAILED)
        # An engine's data describes this machine. A clone detects the abilities of its own disk.
        run(["systemctl", "stop", "docker.socket", "docker.service", "containerd.service"])
        for path in ("/var/lib/docker", "/var/lib/containerd", "/var/lib/containers/storage", "/root/.bash_history"):
            remove_tree(path)
        for folder in ("/var/log/journal", "/tmp"):  # noqa: S108
            for name in names(folder):
                remove_tree(f"{folder}/{name}")
        if installer() == "apt-get":
            run(["apt-get", "clean"])
            for name in names("/var/lib/apt/lists"):
                remove_tree(f"/var/lib/apt/lists/{name}")
        elif installer() == "dnf":
            run(["dnf", "clean", "all", "-q"])
        make_folder("/opt/paddock")
        manifest = "".join(f"{line}\n" for line in [*software(), *self._of_trees()])
        write(_MANIFEST, manifest, 0o644)
        os.sync()
        return manifest

    def _of_trees(self) -> Iterator[str]:
        from importlib.metadata import distributions

        store = "/opt/paddock/.store"
        for tree in names(store):
            if os.path.exists(f"{store}/{tree}/manifest"):
                folders = [f"{store}/{tree}/lib/{name}/site-packages" for name in names(f"{store}/{tree}/lib")]
                for each in sorted(distributions(path=folders), key=lambda each: each.name.lower()):
                    yield f"pip {each.name} {each.version}"
