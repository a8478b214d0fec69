"""Attacks at the worst moments: right before calls of the program on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hostile.ground import ATTACKER, Machine
from paddock.channels.onboard import Answer, Request, answer_of, sent

# Only the program itself is raced: the child that acts with the rights of the agent could do nothing for it.
_RACED: Final = f"""
import os, subprocess, sys

at_work = []

def raced(function):
    def call(*given, **named):
        if os.geteuid() == 0 and not at_work:
            at_work.append(True)
            subprocess.run(attack, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            at_work.pop()
        return function(*given, **named)
    return call

program, script, *names = sys.argv[1:]
ids = ["--reuid", "{ATTACKER}", "--regid", "{ATTACKER}", "--clear-groups"]
attack = ["setpriv", *ids, "sh", "-c", "echo >>/mnt/raced\\n" + script]
for name in names:
    setattr(os, name, raced(getattr(os, name)))
exec(program)
"""


def ask(machine: Machine, request: Request, script: str, functions: Sequence[str]) -> Answer:
    """Make a request, and run a shell script as the agent before each of root's calls of these functions of `os`."""
    argv, stdin = sent(request)
    acted = machine.folder / "raced"
    acted.write_text("")
    acted.chmod(0o666)
    ran = machine.run([*argv[:-1], _RACED, argv[-1], script, *functions], stdin=stdin, seconds=300)
    assert acted.read_text(), "the agent could not act meanwhile"
    return answer_of(ran, "the machine")
