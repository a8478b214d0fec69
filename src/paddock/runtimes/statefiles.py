"""The files and folders in the state that the workload manages, as a list that ``state.sh`` applies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from paddock.recipes.workload import Keep, SecretFile, Workload

LIST = "state/list"


def rendered(workload: Workload) -> dict[str, str]:
    """Return the list and the contents that it names, as files of a bundle."""
    contents = {f"state/{number}": file.content for number, file in enumerate(workload.state_files)}
    return {LIST: "".join(_line(*words) for words in _entries(workload)), **contents}


def secret_name(workload: Workload, file: SecretFile) -> str:
    """Return the name of a secret file in the archive."""
    return str(list(workload.secret_files).index(file))


def held(workload: Workload) -> list[str]:
    """Return the directories above locked files, from the home down. The agent can add files, but not replace them."""
    locked = [PurePosixPath(file.path) for file in workload.state_files if file.keep is Keep.LOCKED]
    return sorted({str(folder) for path in locked for folder in path.parents})


def _entries(workload: Workload) -> Iterator[tuple[str, str, str]]:
    held_folders = held(workload)
    for folder in held_folders:
        yield "hold", folder, ""
    for number, file in enumerate(workload.state_files):
        if file.keep is Keep.LOCKED:
            yield file.keep, file.path, str(number)
    yield from (("folder", folder, "") for folder in workload.directories if folder not in held_folders)
    for number, file in enumerate(workload.state_files):
        if file.keep is not Keep.LOCKED:
            yield file.keep, file.path, str(number)
    for secret in workload.secret_files:
        verb = "secret-plant" if secret.overwrite else "secret-seed"
        yield verb, secret.path, secret_name(workload, secret)


def _line(verb: str, path: str, source: str) -> str:
    if not path.isprintable():
        raise ValueError(f"a path in the state cannot be {path!r}")
    return f"{verb}\t{source or '-'}\t{path}\n"
