"""Whether what was shipped is still as it was shipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paddock.checks.line import Line, Outcome
from paddock.checks.subject import Subject
from paddock.visible import one_line


def configuration(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """The files of the bundle: there, of the same content, and not for everyone to change."""
    found, bundle_id = fact["found"]["files"], fact["found"]["bundle"]
    if bundle_id != subject.bundle_id:
        evidence = f"{bundle_id} is in force, and what the file makes is {subject.bundle_id}"
        yield Line.of("files.configuration", False, evidence, "run `paddock up`", fact["seconds"])
        return
    wrong = []
    for path, wanted in sorted(subject.files.items()):
        file = found.get(path)
        if file is None:
            wrong.append(f"{path} is not there")
        elif file["sha256"] != wanted:
            wrong.append(f"{path} was changed")
        elif int(file["mode"], 8) & 0o022:
            wrong.append(f"{path} can be changed by others (mode {file['mode']})")
    yield Line.of(
        "files.configuration",
        not wrong,
        _some(wrong) or f"{len(subject.files)} files are as they were shipped",
        f"`paddock cycle --only {subject.agent}` brings it back as the file says; its state stays",
        fact["seconds"],
    )


def code(subject: Subject, fact: Mapping[str, Any], _: Mapping[str, Any]) -> Iterator[Line]:
    """The code tree: every file as its package recorded it, and none beside."""
    found = fact["found"]
    if found is None:
        yield Line("files.code", Outcome.UNAVAILABLE, "it has no code tree: packages or an image bring its code")
        return
    if "missing" in found and isinstance(found["missing"], str):
        wrong = [f"{found['missing']} is not there"]
    else:
        words = {
            "changed": "was changed",
            "missing": "is missing",
            "added": "was added",
            "loose": "is not root's alone",
        }
        wrong = [f"{path} {said}" for key, said in words.items() for path in found[key]]
    yield Line.of(
        "files.code",
        not wrong,
        _some(wrong) or f"{found.get('files', 0)} files are as their packages recorded them",
        f"`paddock cycle --only {subject.agent}` brings the code anew; its state stays",
        fact["seconds"],
    )


def _some(wrong: list[str]) -> str:
    more = [f"and {len(wrong) - 5} more"] if len(wrong) > 5 else []
    return "\n".join([*map(one_line, wrong[:5]), *more])
