"""Hermes as people install it by hand: a venv, a folder with its data, and a unit or a container that runs it."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

from live.node import Node, wait_for
from paddock.channels.ssh import SshGuest, scan_host_key
from paddock.demo import FACT, VERSION

VENV = "/opt/hermes-venv"
_CONFIG = """\
_config_version: 33
model: {{provider: custom:standin, default: stand-in, context_length: 131072}}
model_catalog: {{enabled: false}}
providers:
  standin: {{base_url: {models}, key_env: STANDIN_KEY, default_model: stand-in, discover_models: false}}
security: {{allow_lazy_installs: false, tirith_enabled: false}}
"""
UNIT = f"""\
[Unit]
Description=Hermes, as a person wrote it
[Service]
ExecStart={VENV}/bin/hermes gateway run
Restart=always
RestartSec=1
SuccessExitStatus=1
[Install]
WantedBy=multi-user.target default.target
"""
# Prints everything about a folder that must not change, and reads it without a trace. Only the access times of links
# are not printed: Linux cannot read links quietly, and Paddock has to.
_LISTING = """
import hashlib, os, stat, sys

def show(name, above, path):
    found = os.stat(name, dir_fd=above, follow_symlinks=False)
    times = [found.st_mtime_ns, found.st_ctime_ns]
    told = ""
    if stat.S_ISLNK(found.st_mode):
        told = os.readlink(name, dir_fd=above)
    else:
        times.append(found.st_atime_ns)
    if stat.S_ISREG(found.st_mode):
        with open(os.open(name, os.O_RDONLY | os.O_NOATIME, dir_fd=above), "rb") as file:
            told = hashlib.sha256(file.read()).hexdigest()
    print(path, oct(found.st_mode), found.st_uid, found.st_gid, found.st_size, *times, told)
    if stat.S_ISDIR(found.st_mode):
        inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOATIME, dir_fd=above)
        for each in sorted(os.listdir(inside)):
            show(each, inside, path + "/" + each)
        os.close(inside)

show(sys.argv[1], None, ".")
"""


@dataclass(frozen=True)
class Install:
    """Hermes in a machine, in a folder."""

    guest: SshGuest
    folder: str  # of its data

    def shell(self, script: str, *, stdin: bytes | Path = b"") -> str:
        done = self.guest.run(["sh", "-c", f"set -e\n{script}"], stdin=stdin, deadline=240)
        assert done.ok, f"{script}\n{done.out}{done.err}"
        return done.out

    def learn(self, account: str = "root", more: Mapping[str, str] | None = None) -> None:
        """Tell it a fact in a conversation."""
        variables = " ".join(f"{name}={value}" for name, value in {"HERMES_HOME": self.folder, **(more or {})}.items())
        self.shell(f"cd / && runuser -u {account} -- env {variables} {VENV}/bin/hermes -z 'Remember: {FACT}'")
        assert FACT in self.shell(f"cat {self.folder}/memories/MEMORY.md")

    def listing(self) -> str:
        """Return times, modes, owners and hashes of all files."""
        done = self.guest.run(["python3", "-c", _LISTING, self.folder])
        assert done.ok, done.err
        return done.out


def install(node: Node, address: str, folder: str, build: Path, account: str = "root") -> Install:
    """Install Hermes in a machine, with its data in a folder. Nothing of it is Paddock's."""
    key = scan_host_key(address)
    assert key
    guest = SshGuest(address, address, key=node.stage.folder / "id_ed25519", host_keys=(key,))
    made = Install(guest, folder)
    made.shell(f"mkdir -p {VENV} && tar -xz -C {VENV}", stdin=_venv(build))
    made.shell(f"install -d -m 700 -o {account} {folder}")
    files = {"config.yaml": _CONFIG.format(models=node.models), ".env": _environment(node)}
    for name, text in files.items():
        made.shell(f"install -m 600 -o {account} /dev/stdin {folder}/{name}", stdin=text.encode())
    return made


def _environment(node: Node) -> str:
    return f"STANDIN_KEY={node.stage.environment['STANDIN_KEY']}\nOLD_SECRET=from-the-old-install\n"


def _venv(build: Path) -> Path:
    """Return an archive of a venv with Hermes, which works wherever the same Python is."""
    archive = build / "venv.tar.gz"
    if not archive.exists():
        venv, uv = build / "venv", find_uv_bin()
        subprocess.run([uv, "venv", "-q", "--relocatable", "--python", "/usr/bin/python3", str(venv)], check=True)
        packages = [f"hermes-agent=={VERSION}", "aiohttp"]
        subprocess.run([uv, "pip", "install", "-q", "--python", str(venv / "bin/python"), *packages], check=True)
        with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
            tar.add(venv, ".")
    return archive


def start_unit(made: Install, unit: str = UNIT) -> None:
    """Start it as a service of the machine, and at every boot."""
    made.shell("cat >/etc/systemd/system/hermes.service && systemctl daemon-reload", stdin=unit.encode())
    made.shell("systemctl enable --quiet --now hermes.service")
    wait_for(lambda: "running" in made.shell(f"cat {made.folder}/gateway_state.json 2>/dev/null || true"))
