"""Software bills of materials in CycloneDX: of Paddock's wheel, and of an agent's code and its machine."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from paddock import __version__
from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.text import one_line
from paddock.channels.onboard import ask
from paddock.core.deployment import Deployment
from paddock.core.observe import observe, reach
from paddock.core.resolve import Located, locate
from paddock.kinds import packaged
from paddock.kinds.code import CodeTree, Tool
from paddock.onboard.code.packages import InventorySeen, ReportInventory

Component = dict[str, Any]

_SCHEMA: Final = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_WINDOWS: Final = "sys_platform == 'win32'"  # packages for Windows only are in no code tree
_MOST: Final = 20_000  # packages of a machine; paddock.onboard.code.packages has the same limit
_SYSTEM: Final = re.compile(r"([a-z0-9][a-z0-9._-]{0,39})? ([A-Za-z0-9][A-Za-z0-9._-]{0,39})?")
_NAME: Final = r"([A-Za-z0-9][A-Za-z0-9._+-]{0,199})"
_PACKAGE: Final = re.compile(rf"(dpkg|rpm) {_NAME} ([A-Za-z0-9][A-Za-z0-9.+~:^_-]{{0,199}})(?: {_NAME})?")
_TYPES: Final = {"dpkg": "deb", "rpm": "rpm"}


@frozen
class Inventory:
    """The packages of a machine's distribution."""

    of_template: bool  # whether they are those of the template that the machine was made from
    system: str  # such as "debian"; empty if the machine does not say
    release: str
    packages: Sequence[tuple[str, str, str, str]]  # dpkg or rpm, name, version, source package if it is known


def of_wheel() -> dict[str, Any]:
    """Return the bill of Paddock's wheel: the packages that the published constraints install with it."""
    installed = resources.files("paddock") / "constraints.txt"
    source = installed if installed.is_file() else Path(__file__).parents[3] / "constraints.txt"
    subject = {"type": "application", "name": "paddock", "version": __version__}
    return _bill(subject, _of_lock(source.read_text(encoding="utf-8")))


def of_agent(agent: Deployment) -> dict[str, Any]:
    """Return the bill of an agent: its code tree or image, and the packages of its machine if that can be reached."""
    located = locate(agent)
    components = [_of_tree(located.code[1])] if located.code else []
    if located.runtime.container:
        components.append({"type": "container", "name": located.runtime.container.image.name})
    inventory = _reached(located)
    subject = {"type": "application", "group": agent.project, "name": agent.name}
    return _bill(subject, [*components, *([_of_machine(inventory)] if inventory else [])])


def _reached(agent: Located) -> Inventory | None:
    """Return the packages of an agent's machine; None, and a line that says why, if it cannot be reached."""
    seen = observe(agent)
    try:
        guest = reach(agent, seen)
    except PaddockError as error:
        agent.reporter.say(f"the packages of its machine are left out: {error.message}")
        return None
    return inventory_of(ask(guest, "listing the packages", ReportInventory(), deadline=120, into=InventorySeen))


def inventory_of(seen: InventorySeen) -> Inventory:
    """Return the packages that a report lists. Every line is checked, because the result goes to other programs."""
    system = _SYSTEM.fullmatch(seen.system)
    packages = [(line, _PACKAGE.fullmatch(line)) for line in seen.packages]
    wrong = [line for line, package in packages if not package] + ([] if system else [seen.system])
    if wrong:
        raise PaddockError(f"the machine's list of packages has an unexpected line: {one_line(wrong[0], 100)}")
    if len(packages) > _MOST:
        raise PaddockError(f"the machine's list of packages is too long: it has more than {_MOST}")
    found = [(match[1], match[2], match[3], match[4] or "") for _, match in packages if match]
    return Inventory(seen.of_template, system[1] or "" if system else "", system[2] or "" if system else "", found)


def _of_machine(found: Inventory) -> Component:
    distro = f"{found.system}-{found.release}" if found.release else found.system
    packages = []
    for manager, name, version, source in dict.fromkeys(found.packages):  # dpkg lists a package for each architecture
        facts = {"distro": distro, "upstream": "" if source == name else source}
        more = "&".join(f"{key}={quote(value, safe='')}" for key, value in facts.items() if value)
        purl = f"pkg:{_TYPES[manager]}/{_purl(name, version, found.system)}{f'?{more}' if more else ''}"
        packages.append({"type": "library", "name": name, "version": version, "purl": purl})
    whose = "template that the machine was made from" if found.of_template else "machine"
    return {
        "type": "operating-system",
        "name": found.system or "unknown",
        **({"version": found.release} if found.release else {}),
        "description": f"packages of the {whose}",
        "components": packages,
    }


def _of_tree(tree: CodeTree) -> Component:
    wanted = tree.distribution
    lock = "".join([tree.lock, *(f"\n{each.lock}" for each in tree.toolchains)])
    packages = [*_of_lock(lock, without_windows=True), *map(_of_tool, tree.tools)]
    if wanted.local:  # from this machine: the lock does not have it, and neither has an index
        described = (
            f"{'sources' if wanted.local.path.is_dir() else 'wheel'} on this machine, with hash {wanted.local.digest}"
        )
        own = {"type": "library", "name": wanted.name, "version": wanted.version, "description": described}
        packages = [own, *packages]
    return {"type": "application", "name": f"code of {wanted.name}", "version": tree.id, "components": packages}


def _of_lock(lock: str, *, without_windows: bool = False) -> list[Component]:
    found = [each for each in packaged.packages(lock) if not (without_windows and each.marker == _WINDOWS)]
    return [_of_package(each) for each in found]


def _of_package(package: packaged.Package) -> Component:
    purl = f"pkg:pypi/{_purl(package.name, package.version)}"
    hashes = [{"alg": "SHA-256", "content": each} for each in package.hashes]
    # A lock has the hashes of all files of a version, of which one is installed. The index is this machine's own.
    files = {"type": "distribution", "url": purl, "comment": "one of these files", "hashes": hashes}
    return {
        "type": "library",
        "name": package.name,
        "version": package.version,
        "purl": purl,
        **({"externalReferences": [files]} if hashes else {}),
        **({"properties": [{"name": "paddock:marker", "value": package.marker}]} if package.marker else {}),
    }


def _of_tool(tool: Tool) -> Component:
    return {
        "type": "application",
        "name": tool.name,
        "version": tool.version,
        "hashes": [{"alg": "SHA-512", "content": tool.sha512}],
        "purl": f"pkg:npm/{_purl(tool.name, tool.version)}",
    }


def _purl(name: str, version: str, namespace: str = "") -> str:
    """Return the end of a package URL, whose reserved characters are escaped."""
    above = f"{quote(namespace, safe='')}/" if namespace else ""
    return f"{above}{quote(name, safe='')}@{quote(version, safe=':')}"


def _bill(subject: Component, components: Iterable[Component]) -> dict[str, Any]:
    """Return a document of CycloneDX 1.6. The same software has the same document: it has no time in it."""
    tool = {"type": "application", "name": "paddock", "version": __version__}
    found = {"metadata": {"tools": {"components": [tool]}, "component": subject}, "components": list(components)}
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(found, sort_keys=True))
    head = {"$schema": _SCHEMA, "bomFormat": "CycloneDX", "specVersion": "1.6"}
    return {**head, "serialNumber": f"urn:uuid:{number}", "version": 1, **found}
