"""Known vulnerabilities of locked packages: asked from OSV, which has the advisories of PyPI and GitHub."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from paddock.kinds import packaged

ROOT: Final = Path(__file__).parents[1]
OSV: Final = "https://api.osv.dev/v1/querybatch"
ACCEPTED: Final = ROOT / "tests/data/advisories.yaml"
_MOST: Final = 1000  # questions at once
_LARGEST: Final = 32 << 20
_SECONDS: Final = 30
# What a service, or the proxy of a network without one, answers when it does not work.
_NO_SERVICE: Final = {403, 407, 429}

Pin = tuple[str, str]  # name and version
Advisories = Mapping[Pin, Sequence[str]]


class OutOfReachError(Exception):
    """The service does not answer from here."""


def shipped() -> dict[Path, list[Pin]]:
    """Return the packages of each lock that Paddock ships, and of its constraints."""
    files = [*sorted((ROOT / "src/paddock/kinds").glob("*/*/*.txt")), ROOT / "constraints.txt"]
    return {file: [(each.name, each.version) for each in packaged.packages(file.read_text())] for file in files}


def asked(pins: Sequence[Pin], url: str = OSV) -> Advisories:
    """Return the ids of the advisories about each package that has some."""
    found: dict[Pin, Sequence[str]] = {}
    for start in range(0, len(pins), _MOST):
        some = pins[start : start + _MOST]
        found.update(understood(some, _answer(some, url)))
    return found


def understood(pins: Sequence[Pin], answer: Any) -> Advisories:
    """Return the ids in an answer of OSV. It has a result for each question, in order."""
    results = answer["results"]
    if len(results) != len(pins):
        raise ValueError(f"{len(results)} results for {len(pins)} packages")
    for pin, result in zip(pins, results, strict=True):
        if "next_page_token" in result:
            raise ValueError(f"the advisories about {pin} have several pages")
    return {
        pin: [each["id"] for each in result["vulns"]]
        for pin, result in zip(pins, results, strict=True)
        if result.get("vulns")
    }


def accepted(file: Path = ACCEPTED) -> dict[tuple[str, str], str]:
    """Return the reason for each advisory and package that is accepted."""
    rows = YAML(typ="safe").load(file)
    return {(row["id"], row["package"]): row["reason"] for row in rows}


def judged(found: Advisories, known: Mapping[tuple[str, str], str], locks: Mapping[Path, list[Pin]]) -> Iterator[str]:
    """Yield a sentence about each advisory that is not accepted, and about each accepted one that nothing needs."""
    there = {(number, pin[0]) for pin, ids in found.items() for number in ids}
    for pin, ids in sorted(found.items()):
        names = sorted(file.name for file, pins in locks.items() if pin in pins)
        for number in ids:
            if (number, pin[0]) not in known:
                yield f"{pin[0]} {pin[1]} has {number}: update {', '.join(names)}, or accept it in {ACCEPTED.name}"
    for number, name in sorted(known.keys() - there):
        yield f"{ACCEPTED.name} accepts {number} about {name}, which no lock has: remove the row"


def _answer(pins: Sequence[Pin], url: str) -> Any:
    questions = [{"package": {"ecosystem": "PyPI", "name": name}, "version": version} for name, version in pins]
    body = json.dumps({"queries": questions}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return json.loads(answer.read(_LARGEST))
    except urllib.error.HTTPError as error:
        if error.code in _NO_SERVICE or error.code >= 500:
            raise OutOfReachError(f"it answers {error.code}") from None
        raise
    except OSError as error:
        raise OutOfReachError(str(error)) from None
