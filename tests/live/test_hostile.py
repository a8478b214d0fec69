"""A hostile agent plants programs, links, log lines and mounts. No verb gives it privileges."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from live.manual import container, destroy
from live.node import Node, wait_for
from live.test_lease import api, by_ssh
from paddock.places.proxmox.api.client import Client

__all__ = ["api"]
pytestmark = pytest.mark.live

STATE: Final = "/srv/bee"
UID: Final = 4343
PREPARE: Final = f"""
echo untouched >/etc/canary && chmod 600 /etc/canary
mkdir -p {STATE} && chown {UID}:{UID} {STATE}
"""
# Any of these programs that runs as root creates /root/taken.
ATTACK: Final = r"""
take='#!/bin/sh
touch /root/taken 2>/dev/null
PATH=/usr/bin:/bin exec "${0##*/}" "$@"'
mkdir -p .local/bin
for name in setpriv env sh cat grep mv chown python3 systemctl id stat find readlink flock; do
    printf '%s\n' "$take" >.local/bin/$name && chmod 6755 .local/bin/$name
done
ln -sfn /etc/canary .bashrc
ln -sfn /root .config
ln -sfn /etc .paddock
touch -- '-rf' '--reference=canary' '$(touch /root/taken)' "$(printf 'a\nb\342\200\250left=/srv/evil')"
mkfifo pipe 2>/dev/null
ln /etc/passwd second-name 2>/dev/null
unshare -Urm sh -c 'mount --bind /root /etc; touch /etc/taken' 2>/dev/null
printf 'error\342\200\250left=/srv/evil x\342\200\250bundle=forged\n'
printf 'paddock: error \033]0;taken\007 \033[2J \302\233 end\n'
"""
# The first start fails, so that Paddock reads the log of the agent.
PROCESS: Final = f"{ATTACK}\n[ -e started ] || {{ touch started; exit 1; }}\nexec /usr/bin/sleep infinity"
AGENT: Final[dict[str, Any]] = {
    "kind": "service",
    "place": "box",
    "command": ["/bin/sh", "-c", PROCESS],
    "user": {"name": "bee", "uid": UID},
    "state": {"path": STATE},
    "environment": {"PATH": f"{STATE}/home/.local/bin:/usr/local/bin:/usr/bin:/bin"},
    "service": {"restart": "always", "restart_delay": "1s"},
}


class Target:
    """A host over ssh with the hostile agent, and a check of what the agent has gained."""

    def __init__(self, node: Node, where: str) -> None:
        self.node, self.where = node, where
        node.shell(where, PREPARE)
        # The directory as an agent would leave it before Paddock is used.
        node.shell(where, f"cd {STATE} && setpriv --reuid {UID} --regid {UID} --clear-groups sh -c '{_quoted(ATTACK)}'")
        self.write()

    def write(self, **more: Any) -> None:
        tree = by_ssh(self.node, self.where)
        tree["agents"] = {"bee": {**AGENT, **more}}
        self.path = str(self.node.write("bee.yaml", tree))

    def paddock(self, *words: str, may_fail: bool = False) -> str:
        """Run a verb and assert that the agent has gained nothing."""
        verb, *rest = words
        command = [sys.executable, "-m", "paddock", verb, *rest[:1], "-f", self.path, *rest[1:]]
        done = subprocess.run(
            command,
            cwd=self.node.stage.folder,
            env=dict(self.node.stage.environment),
            capture_output=True,
            timeout=300,
            check=False,
        )
        shown = (done.stdout + done.stderr).decode(errors="replace")
        self.assert_nothing_gained(words[0])
        if verb != "exec":
            assert "\033" not in shown, f"{words[0]} sends an escape sequence of the agent's to the terminal"
            assert "\x9b" not in shown
        assert may_fail or done.returncode == 0, shown
        return shown

    def assert_nothing_gained(self, verb: str) -> None:
        found = self.node.shell(self.where, "ls /root/taken 2>/dev/null; cat /etc/canary; stat -c '%u %a' /etc/canary")
        assert found == "untouched\n0 600\n", f"after {verb}: {found}"
        outside = f"find /etc /root /opt /usr/local -user {UID} -print -quit"
        assert self.node.shell(self.where, outside) == "", f"after {verb} the agent owns files of root's"

    def repeat_the_attack(self) -> None:
        home = f"{STATE}/home"
        self.node.shell(
            self.where, f"cd {home} && setpriv --reuid {UID} --regid {UID} --clear-groups sh -c '{_quoted(ATTACK)}'"
        )


def _quoted(script: str) -> str:
    return script.replace("'", "'\\''")


@pytest.fixture
def target(node: Node, api: Client) -> Iterator[Target]:
    yield Target(node, container(node, api, 231))
    destroy(api, 231)


def test_a_hostile_agent_gains_no_privileges_from_any_verb(target: Target) -> None:
    node = target.node
    target.paddock("adopt", "bee", "--yes")
    target.paddock("up", may_fail=True)  # the first start fails
    wait_for(lambda: "sleep" in node.shell(target.where, f"ps -o args= -u {UID} || true"))
    target.repeat_the_attack()
    target.paddock("up")
    target.paddock("verify")
    assert target.paddock("exec", "bee", "--", "/usr/bin/id", "-u").split()[0] == str(UID)
    assert "/srv/evil" not in target.paddock("plan")
    shown = target.paddock("logs", "bee")
    assert "\\u2028" in shown, "control characters of the agent are shown as escapes"
    target.paddock("status")

    # `paddock shell` on a terminal.
    assert str(UID) in shell(target, "/usr/bin/id -u; exit\n")
    target.assert_nothing_gained("shell")

    target.write(environment={**AGENT["environment"], "CHANGED": "yes"})
    target.paddock("up")
    target.repeat_the_attack()
    target.paddock("up")
    target.paddock("down")
    target.paddock("up")
    target.paddock("down")
    target.paddock("forget", "bee", "--name", "bee")
    assert node.shell(target.where, f"ls -A {STATE} 2>/dev/null; ls -A /srv") == "", "nothing of the state is left"


def shell(target: Target, keys: str) -> str:
    """Run `paddock shell` on a new terminal, type keys, and return the output."""
    parent, child = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "paddock", "shell", "bee", "-f", target.path],
        cwd=target.node.stage.folder,
        env=dict(target.node.stage.environment),
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    )
    os.close(child)
    os.write(parent, keys.encode())
    shown = b""
    try:
        while data := os.read(parent, 4096):
            shown += data
    except OSError:
        pass  # the shell and its terminal have ended
    finally:
        os.close(parent)
        running.wait(timeout=60)
    return shown.decode(errors="replace")
