"""Parts of Hermes that only the file decides: pinned values, locked files, and refused commands."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from shlex import quote
from typing import Any, Final

from paddock.kinds import files as shipped
from paddock.kinds.files import dump
from paddock.kinds.hermes.spec import Managed
from paddock.kinds.workload import File, Keep, Paths, StateFile

# Commands that change the agent's code, its supervisor, the active profile, or who may talk to the agent.
_NEVER: Final = (
    ("update",),
    ("uninstall",),
    ("postinstall",),
    ("gateway", "install"),
    ("gateway", "uninstall"),
    ("profile", "use"),
    ("pairing", "approve"),
)
# Commands that write configuration.
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

_WITHOUT_USERS: Final = ("api_server", "webhook", "homeassistant")  # connectors that authenticate in another way

_NOTE: Final = "# managed by paddock: edit paddock.yaml and run paddock up\n"


def refused(managed: Managed) -> Sequence[Sequence[str]]:
    """Return the refused commands of ``hermes``, each by its first words."""
    return (*_NEVER, *_STRICT) if managed is Managed.STRICT else _NEVER


def command(paths: Paths) -> str:
    """Return the path of the program that starts Hermes on the machine."""
    return f"{paths.etc}/hermes/hermes"


def program(paths: Paths, tree: str) -> str:
    """Return the path of the agent's command ``hermes``; an image with the code has its own command."""
    return f"{paths.etc}/bin/hermes" if tree else "hermes"


def files(
    managed: Managed, paths: Paths, tree: str, config: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[File, ...]:
    """Return the files with pinned values, and the command that applies them."""
    shim = f'#!/bin/sh\nexec {quote(f"{tree}/bin/python")} {quote(command(paths))} "$@"\n'
    return (
        File("hermes/config.yaml", dump(config)),
        File("hermes/.env", "".join(f"{name}={_quoted(value)}\n" for name, value in sorted(environment.items()))),
        File("hermes/refused.json", json.dumps(refused(managed)) + "\n"),
        # Hermes finds its own processes by this name.
        File("hermes/hermes", shipped.text("paddock.onboard.hermes", "launch.py")),
        *([File("bin/hermes", shim, executable=True)] if tree else []),
    )


def state_files(managed: Managed, hermes_home: str, connectors: Collection[str]) -> tuple[StateFile, ...]:
    """Return the locked files of the state, which could otherwise override pinned values.

    ``.env`` and ``.op.env`` set variables, among them the path of the pinned values. ``active_profile`` selects other
    configuration files. ``gateway.json`` is an older form of config.yaml. Users in a messenger's ``approved.json``, at
    its new or its old path, may talk to the agent in addition to those in the file. ``webhook_subscriptions.json`` adds
    routes to the webhook.
    """
    texts = {".env": _NOTE, ".op.env": _NOTE, "active_profile": "default\n"}
    texts |= {
        f"{folder}/{name}-approved.json": "{}\n"
        for name in connectors
        if name not in _WITHOUT_USERS
        for folder in ("pairing", "platforms/pairing")
    }
    if "webhook" in connectors:
        texts["webhook_subscriptions.json"] = "{}\n"
    strict = {"config.yaml": _NOTE, "gateway.json": "{}\n", ".managed": "paddock\n"}
    locked = texts | strict if managed is Managed.STRICT else texts
    return tuple(StateFile(f"{hermes_home}/{name}", text, Keep.LOCKED) for name, text in locked.items())


def _quoted(value: str) -> str:
    """Quote a value so that no variable is replaced in it."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
