"""What of Hermes the agent's file decides alone: pinned values, locked files, and commands that are refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from shlex import quote
from typing import Any, Final

from paddock.recipes.hermes.spec import Managed
from paddock.recipes.hermes.yaml import dump
from paddock.recipes.workload import File, Keep, Paths, StateFile

# What is not the agent's to change: its code, its supervisor, the profile that is the service, who may talk to it.
_NEVER: Final = (
    ("update",),
    ("uninstall",),
    ("postinstall",),
    ("gateway", "install"),
    ("gateway", "uninstall"),
    ("profile", "use"),
    ("pairing", "approve"),
)
# What would write a configuration that is the file's.
_STRICT: Final = (
    ("setup",),
    *(("config", word) for word in ("set", "unset", "edit", "migrate")),
    *(("gateway", word) for word in ("setup", "enroll", "migrate-legacy")),
    ("model",),
    ("migrate",),
    ("secrets",),
    *((part, word) for part in ("tools", "plugins") for word in ("enable", "disable")),
    *(("fallback", word) for word in ("add", "remove", "rm", "clear")),
    *(("moa", word) for word in ("configure", "config", "delete", "rm")),
    *(("mcp", word) for word in ("add", "remove", "rm", "configure", "config", "install")),
)

_NOTE: Final = "# managed by paddock: edit paddock.yaml and run paddock up\n"


def refused(managed: Managed) -> Sequence[Sequence[str]]:
    """Return the commands of ``hermes`` that are refused, each by the words it begins with."""
    return (*_NEVER, *_STRICT) if managed is Managed.STRICT else _NEVER


def command(paths: Paths) -> str:
    """Return the path of the program that is Hermes on the machine."""
    return f"{paths.etc}/hermes/hermes"


def program(paths: Paths, tree: str) -> str:
    """Return what the agent calls ``hermes``; an image that brings its code has one of its own."""
    return f"{paths.etc}/bin/hermes" if tree else "hermes"


def files(
    managed: Managed, paths: Paths, tree: str, config: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[File, ...]:
    """Return what is pinned, and the command that sees to it."""
    launcher = (resources.files(__package__) / "launch.py").read_text(encoding="utf-8")
    shim = f'#!/bin/sh\nexec {quote(f"{tree}/bin/python")} {quote(command(paths))} "$@"\n'
    return (
        File("hermes/config.yaml", dump(config)),
        File("hermes/.env", "".join(f"{name}={_quoted(value)}\n" for name, value in sorted(environment.items()))),
        File("hermes/refused.json", json.dumps(refused(managed)) + "\n"),
        # Hermes knows its own processes by this name.
        File("hermes/hermes", launcher),
        *([File("bin/hermes", shim, executable=True)] if tree else []),
    )


def state_files(managed: Managed, hermes_home: str, messengers: Iterable[str]) -> tuple[StateFile, ...]:
    """Return the files of the state that would otherwise undo what is pinned.

    ``.env`` and ``.op.env`` set variables, also the one that says where pinned values are; ``active_profile`` makes the
    service run with other files altogether; ``gateway.json`` is an older config.yaml below it. Whoever is in the
    ``approved.json`` of a messenger, the new one or the old, may talk to the agent beside those that the file allows.
    """
    texts = {".env": _NOTE, ".op.env": _NOTE, "active_profile": "default\n"}
    texts |= {
        f"{folder}/{name}-approved.json": "{}\n" for name in messengers for folder in ("pairing", "platforms/pairing")
    }
    strict = {"config.yaml": _NOTE, "gateway.json": "{}\n", ".managed": "paddock\n"}
    locked = texts | strict if managed is Managed.STRICT else texts
    return tuple(StateFile(f"{hermes_home}/{name}", text, Keep.LOCKED) for name, text in locked.items())


def _quoted(value: str) -> str:
    """A value that no variable is expanded in."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
