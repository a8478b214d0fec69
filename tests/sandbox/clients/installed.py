"""The installed clients, and the sandbox that they use."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

# The versions that were read when the sandbox's methods were written.
PACKAGES: Final = ("proxmoxer==2.3.0", "requests", "ansible-core~=2.19.5")
# The collection is only in the package that has every collection. It is downloaded without what it depends on.
COLLECTIONS: Final = "ansible==12.3.0"
COLLECTION: Final = "ansible_collections/community/proxmox/"
ROOT_PASSWORD: Final = "root-of-the-sandbox"
TOKEN: Final = "root@pam!sandbox"


@dataclass(frozen=True)
class Clients:
    """A folder with the programs of the clients."""

    folder: Path

    def run(self, program: str, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        command = [str(self.folder / "venv/bin" / program), *words]
        environment = {**self.environment(), **(env or {})}
        return subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=900)

    def pip(self, *words: str) -> None:
        """Run pip in the environment."""
        done = self.run("python", "-m", "pip", "--disable-pip-version-check", "-q", *words)
        if done.returncode:
            raise RuntimeError(f"pip {words[0]} failed: {done.stderr}")

    def environment(self) -> dict[str, str]:
        """Return the variables of the programs: none of this process that would change what they do."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "ANSIBLE", "PROXMOX"))}
        return {
            **kept,
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "LC_ALL": "C.UTF-8",
        }


def install(folder: Path, *packages: str) -> Clients:
    """Install packages from PyPI into an environment of their own in the folder."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, timeout=300)
    made = Clients(folder)
    made.pip("install", *packages)
    return made


@dataclass(frozen=True)
class Server:
    """A sandbox that serves."""

    ready: dict[str, Any]
    folder: Path

    def environment(self) -> dict[str, str]:
        """Return the variables that tell the clients where the sandbox is."""
        where = urlsplit(self.ready["url"])
        user, _, name = TOKEN.partition("!")
        return {
            "PROXMOX_HOST": str(where.hostname),
            "PROXMOX_PORT": str(where.port),
            "PROXMOX_USER": user,
            "PROXMOX_TOKEN_ID": name,
            "PROXMOX_TOKEN_SECRET": self.ready["tokens"][TOKEN],
            "PROXMOX_CA": self.ready["ca"],
            "PROXMOX_ROOT_PASSWORD": ROOT_PASSWORD,
            "PROXMOX_BASE": self.ready["base"],
        }
