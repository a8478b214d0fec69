"""A canary in every kind of secret that a file takes, from every kind of source."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyrage
import pytest

from security.canaries import Canaries
from security.channels import PERSON

# The agent's own secrets, by the kind of their source. It has these in its environment.
OWN: Final = frozenset({"env", "file", "dotenv", "age", "sops", "command", "whole"})
# Secrets that Paddock uses, and those of another agent of the same file. No agent may have them.
OTHERS: Final = ("notify", "restic", "s3", "stored", "other", "identity")

SECRETS: Final[dict[str, Any]] = {
    "A": {"env": "CANARY_ENV"},
    "B": {"file": "file.key"},
    "C": {"dotenv": "some.env", "key": "C"},
    "D": {"age": "some.age", "key": "D"},
    "E": {"sops": "some.yaml", "key": "a.b"},
    "F": {"command": ["cat", "command.txt"]},
}
FILES: Final = [{"file": "whole.env"}]
NOTIFY: Final = {"url": {"env": "CANARY_NOTIFY"}}
RESTIC: Final = {
    "repository": "./repository",
    "password": {"file": "restic.key"},
    "environment": {"AWS_SECRET_ACCESS_KEY": {"env": "CANARY_S3"}},
}


def write_sources(folder: Path, programs: Path, patch: pytest.MonkeyPatch, path: str, url: str = "") -> Canaries:
    """Write every source into the folder and the environment. ``path`` is the PATH behind a stand-in for sops."""
    canaries = Canaries.of([*sorted(OWN), *OTHERS])
    # A channel that copies a file of one of these sources would show the variable's value.
    identity = pyrage.x25519.Identity.generate()
    canaries.values["identity"] = str(identity)
    variables = {
        PERSON: "yes",
        "CANARY_ENV": canaries["env"],
        "CANARY_S3": canaries["s3"],
        "CANARY_OTHER": canaries["other"],
        "CANARY_NOTIFY": f"{url or 'http://127.0.0.1:9'}/{canaries['notify']}",
        "PADDOCK_AGE_KEY": str(identity),
        "PATH": f"{programs}:{path}",
    }
    for name, value in variables.items():
        patch.setenv(name, value)
    texts = {
        "file.key": canaries["file"],
        "some.env": f"C={canaries['dotenv']}\n",
        "whole.env": f"W={canaries['whole']}\n",
        "command.txt": canaries["command"],
        "restic.key": canaries["restic"],
        "some.yaml": "the stand-in for sops does not read this\n",
    }
    for name, text in texts.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    for name, text in {"some.age": f"D={canaries['age']}\n", "secrets.age": f"s={canaries['stored']}\n"}.items():
        (folder / name).write_bytes(pyrage.encrypt(text.encode(), [identity.to_public()]))
    programs.mkdir(mode=0o700)
    (programs / "sops").write_text(f"#!/bin/sh\necho '{canaries['sops']}'\n")
    (programs / "sops").chmod(0o700)
    return canaries
