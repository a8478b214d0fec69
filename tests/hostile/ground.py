"""A machine to attack: the real scripts run as root on a copy-on-write view of this machine, removed after the test.

The view has no systemd, so ``systemctl``, ``journalctl``, ``docker`` and ``podman`` are stubs that a test scripts. The
stubs record their arguments.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from paddock.base.process import Result
from paddock.channels.onboard import Answer, Request, answer_of, sent

ATTACKER: Final = 54399  # the uid of the agent's account
STUBS: Final = ("systemctl", "journalctl", "docker", "podman", "loginctl")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run the agent as another user")

_STUB: Final = r"""#!/bin/sh
printf '%s\n' "${0##*/} $*" >>/mnt/calls
[ ! -e "/mnt/${0##*/}" ] || . "/mnt/${0##*/}"
"""


@dataclass(frozen=True)
class Machine:
    """A mount namespace with its own root filesystem. Paddock's scripts run in it as root, attacks as the agent."""

    pid: int  # of the process that keeps the namespace alive
    folder: Path  # on this machine; the stubs see it at /mnt

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        uid: int = 0,
        env: dict[str, str] | None = None,
        seconds: float = 60,
    ) -> Result:
        """Run a program on the machine, as root unless a uid is given."""
        become = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"] if uid else []
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--root", "--wd", "--", *become]
        clean = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **(env or {})}
        done = subprocess.run(
            [*enter, *argv], input=stdin, capture_output=True, timeout=seconds, env=clean, check=False
        )
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return Result(tuple(argv), done.returncode, out, err, 0.0)

    def ask(self, request: Request, payload: bytes = b"") -> Answer:
        """Make a request to the program on the machine, as root."""
        argv, stdin = sent(request, payload)
        return answer_of(self.run(argv, stdin=stdin), "the machine")

    def root(self, script: str, *arguments: str) -> str:
        """Run a shell script as root, which must succeed, and return its stdout."""
        result = self.run(["sh", "-euc", script, "root", *arguments])
        assert result.ok, result.err
        return result.out

    def agent(self, script: str, *arguments: str) -> str:
        """Run a shell script as the agent's account, which may fail, and return its stdout."""
        return self.run(["sh", "-c", script, "agent", *arguments], uid=ATTACKER).out

    def stub(self, name: str, script: str) -> None:
        """Set the shell script that a stub runs."""
        (self.folder / name).write_text(script)

    @property
    def calls(self) -> list[str]:
        """The command lines with which the stubs were called."""
        log = self.folder / "calls"
        return log.read_text().split("\n")[:-1] if log.exists() else []

    def exists(self, path: str) -> bool:
        return self.run(["sh", "-c", '[ -e "$1" ] || [ -L "$1" ]', "exists", path]).ok

    def read(self, path: str) -> str:
        return self.root('cat -- "$1"', path)


# The test's folder is mounted at /mnt, where the stubs find their scripts.
_LAYERS: Final = r"""
folder=$1
mount --make-rprivate /
mount -t tmpfs -o mode=755 layers "$folder/layers"
cd "$folder/layers"
mkdir up work root
mount -t overlay overlay root -o lowerdir=/,upperdir=up,workdir=work
for each in proc sys dev; do
    mount --rbind "/$each" "root/$each"
done
mount -t tmpfs -o mode=1777 tmp root/tmp
mount -t tmpfs -o mode=755 run root/run
mount -t tmpfs -o mode=755 srv root/srv # other tests keep states there meanwhile
mount --bind "$folder" root/mnt
cp "$folder"/stubs/* root/usr/bin
cp "$folder"/stubs/* root/usr/local/sbin
exec chroot root sh -c 'echo ready && exec sleep infinity'
"""


@contextmanager
def machine() -> Iterator[Machine]:
    """Create a machine to attack, and remove it when the test ends or fails."""
    with tempfile.TemporaryDirectory(prefix="paddock-hostile-") as top:
        folder = Path(top)
        folder.chmod(0o755)
        (folder / "layers").mkdir()
        (folder / "stubs").mkdir()
        for name in STUBS:
            (folder / "stubs" / name).write_text(_STUB)
            (folder / "stubs" / name).chmod(0o755)
        keeper = subprocess.Popen(
            ["unshare", "--mount", "sh", "-euc", _LAYERS, "layers", str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert keeper.stdout is not None
            assert keeper.stdout.readline() == "ready\n", "the layers could not be mounted"
            yield Machine(keeper.pid, folder)
        finally:
            keeper.kill()
            keeper.wait()


def own_text(path: Path) -> str:
    """Return the longest part of a script that the loader does not change."""
    return max(re.split(r"^\. \./.*\n", path.read_text(), flags=re.MULTILINE), key=len).strip()
