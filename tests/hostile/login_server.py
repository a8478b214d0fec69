"""A real sshd on a machine to attack, and logins to it with a key."""

from __future__ import annotations

import shlex
from typing import Final

from hostile.ground import Machine
from paddock.base.process import Result
from sshd import base_archive

_PARTS: Final = ("./usr/sbin/sshd", "./usr/lib/*/libwrap.so*", "./etc/pam.d/sshd", "./etc/ssh/sshd_config")
_PREPARE: Final = r"""
mkdir -p /run/sshd
grep -q ^sshd: /etc/passwd || echo 'sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
ssh-keygen -A >/dev/null
ssh-keygen -q -t ed25519 -N '' -f /root/stranger
"""
_PLANT: Final = r"""
umask 077
mkdir -p "$HOME/.ssh"
printf '%s\n' "$1" >"$HOME/.ssh/authorized_keys"
"""
_OPTIONS: Final = (
    *("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes"),
    "ProxyCommand=/usr/sbin/sshd -i",
)


def install(machine: Machine) -> None:
    """Give the machine the sshd of the sandbox's base template, with its configuration, and a stranger a key."""
    unpack = ["tar", "--zstd", "--wildcards", "-xf", "-", "-C", "/", *_PARTS]
    unpacked = machine.run(unpack, stdin=base_archive().read_bytes())
    assert unpacked.ok, unpacked.err
    machine.root(_PREPARE)


def plant(machine: Machine, uid: int, home: str) -> None:
    """As the agent, let the stranger log in to the account: its home is its own."""
    key = machine.read("/root/stranger.pub").strip()
    planted = machine.run(["sh", "-euc", _PLANT, "plant", key], uid=uid, env={"HOME": home})
    assert planted.ok, planted.err


def log_in(machine: Machine, account: str, *command: str) -> Result:
    """Log in to the account with the stranger's key, through sshd."""
    options = [word for option in _OPTIONS for word in ("-o", option)]
    stranger = ["ssh", "-F", "/dev/null", "-i", "/root/stranger", *options]
    return machine.run([*stranger, f"{account}@here", shlex.join(command)])
