"""The documents of an agent: where Hermes reads each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from paddock.file.kinds import Mistake
from paddock.file.referenced import text_of
from paddock.kinds.hermes.spec import HOME, HermesSpec, section

SOUL: Final = f"{HOME}/SOUL.md"
MEMORIES: Final = f"{HOME}/memories"

# Names that Hermes reads from its own home, and nowhere else.
_OWN_PLACES: Final = {
    "SOUL.md": SOUL,
    "USER.md": f"{MEMORIES}/USER.md",
    "MEMORY.md": f"{MEMORIES}/MEMORY.md",
}
# Names that Hermes reads from the working directory. It reads the first one that there is.
_PROJECT: Final = (".hermes.md", "HERMES.md", "AGENTS.md", "agents.md", "CLAUDE.md", "claude.md", ".cursorrules")
# Names that other agents read from their working directory, and Hermes does not.
_UNREAD: Final = ("TOOLS.md", "IDENTITY.md")

# Files in Hermes' home, and the keys that decide their content.
_DECIDED_BY: Final = {
    "config.yaml": "settings",
    "gateway.json": "settings",
    ".env": "environment and secrets",
    ".op.env": "environment and secrets",
    "auth.json": "auth",
    ".managed": "managed",
}
# How long a memory may be before Hermes' memory tool adds nothing to it: the setting below `memory`, and its default.
_LIMITS: Final = {
    _OWN_PLACES["USER.md"]: ("user_char_limit", 1375),
    _OWN_PLACES["MEMORY.md"]: ("memory_char_limit", 2200),
}


def mistakes(agent: HermesSpec, folder: Path | None) -> Iterator[Mistake]:
    """Yield documents that Hermes would not read, or that another key decides."""
    taken: dict[str, str] = {}
    for name in agent.documents:
        path = _place(agent, name)
        key = _DECIDED_BY.get(path.removeprefix(f"{HOME}/")) if path.startswith(f"{HOME}/") else None
        if key:
            yield ("documents", name), f"is decided by {key}; write it there"
        elif path == f"{HOME}/active_profile":
            yield ("documents", name), "an agent has one profile; for another one write another agent into this file"
        elif path in taken:
            yield ("documents", name), f"is the same file as {taken[path]}; keep one"
        elif name in _UNREAD:
            only = _only_a_file(agent, name)
            yield ("documents", name), f"Hermes does not read {name}; write its text into AGENTS.md or SOUL.md{only}"
        taken.setdefault(path, name)
    yield from _project_files(agent)
    yield from _memories_without_room(agent, folder)


def project_file(agent: HermesSpec) -> str | None:
    """Return the name of the document that Hermes reads from the working directory."""
    return next((name for name in _PROJECT if name in agent.documents), None)


def _project_files(agent: HermesSpec) -> Iterator[Mistake]:
    first = project_file(agent)
    for name in _PROJECT:
        if name in agent.documents and name != first:
            only = _only_a_file(agent, name)
            yield ("documents", name), f"Hermes reads {first} and no other file of this sort; join the texts{only}"


def _memories_without_room(agent: HermesSpec, folder: Path | None) -> Iterator[Mistake]:
    memory = section(agent.settings, "memory")
    for name, document in agent.documents.items():
        setting, usual = _LIMITS.get(_place(agent, name), ("", 0))
        text = document.text or (text_of(folder, document.file)[0] if folder and document.file else "")
        limit = memory.get(setting, usual)
        if setting and isinstance(limit, int) and len(text.strip()) > limit:
            yield (
                ("documents", name),
                f"has {len(text.strip())} characters, and the agent adds nothing to a memory of more than {limit};"
                " write a part of it into AGENTS.md",
            )


def _only_a_file(agent: HermesSpec, name: str) -> str:
    if agent.working_directory.startswith("/"):
        return ""
    return f" (or {agent.working_directory}/{name}:, for a file that only the agent's tools read)"


def places(agent: HermesSpec) -> Iterator[tuple[str, str | None]]:
    """Yield the place and the text of each document."""
    for name, document in agent.documents.items():
        yield _place(agent, name), document.text


def _place(agent: HermesSpec, name: str) -> str:
    return _OWN_PLACES.get(name) or agent.document_path(name)
