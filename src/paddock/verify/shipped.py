"""Checks that the installed configuration and code were not changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paddock.base.text import one_line
from paddock.verify.line import Line, Outcome, Subject


def configuration(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """Check that the files of the bundle exist, are unchanged, and are writable by their owner only."""
    found, bundle_id = fact["found"]["files"], fact["found"]["bundle"]
    if bundle_id != subject.bundle_id:
        evidence = f"the current bundle is {bundle_id}, and the file renders {subject.bundle_id}"
        yield Line.of("files.configuration", False, evidence, "run `paddock up`", fact["seconds"])
        return
    wrong = []
    for path, wanted in sorted(subject.files.items()):
        file = found.get(path)
        if file is None:
            wrong.append(f"{path} is missing")
        elif file["sha256"] != wanted:
            wrong.append(f"{path} was changed")
        elif int(file["mode"], 8) & 0o022:
            wrong.append(f"{path} is writable by others (mode {file['mode']})")
    yield Line.of(
        "files.configuration",
        not wrong,
        _some(wrong) or f"{len(subject.files)} files are unchanged",
        f"`paddock cycle --only {subject.agent}` restores the files and keeps the state",
        fact["seconds"],
    )


def code(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """Check that each file of the code tree matches the record of its package, and that no file was added."""
    found = fact["found"]
    if found is None:
        yield Line("files.code", Outcome.UNAVAILABLE, "no code tree: the code comes from packages or an image")
        return
    if "missing" in found and isinstance(found["missing"], str):
        wrong = [f"{found['missing']} is missing"]
    else:
        words = {
            "changed": "was changed",
            "missing": "is missing",
            "added": "was added",
            "loose": "is writable by users other than root",
        }
        wrong = [f"{path} {said}" for key, said in words.items() for path in found[key]]
    yield Line.of(
        "files.code",
        not wrong,
        _some(wrong) or f"{found.get('files', 0)} files match the records of their packages",
        f"`paddock cycle --only {subject.agent}` reinstalls the code and keeps the state",
        fact["seconds"],
    )


def _some(wrong: list[str]) -> str:
    more = [f"and {len(wrong) - 5} more"] if len(wrong) > 5 else []
    return "\n".join([*map(one_line, wrong[:5]), *more])
