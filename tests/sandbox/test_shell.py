"""The shell of the node's console runs the lines that a person pastes."""

from __future__ import annotations

import pytest

from pvebox.api.errors import SandboxError
from pvebox.console.shell import run_lines

WORK = """\
# hermes: add /srv/data to machine 101 (Proxmox allows bind mounts only to root, not to a token)
mkdir -p /srv/data &&
{ mountpoint -q /srv/data || chown 110000:110000 /srv/data; } &&
pct set 101 -features 'keyctl=1,nesting=1' -mp1 '/srv/data,mp=/data' &&
pct reboot 101
"""


class Shell:
    """Records the commands that run, and lets some fail."""

    def __init__(self, *failing: str) -> None:
        self._failing = failing
        self.ran: list[str] = []

    def __call__(self, argv: list[str]) -> int:
        self.ran.append(" ".join(argv))
        return 32 if argv[0] in self._failing else 0


def ran(text: str, *failing: str) -> tuple[int, list[str]]:
    shell = Shell(*failing)
    return run_lines(text.splitlines(), shell), shell.ran


def test_the_lines_for_root_run_in_their_order() -> None:
    code, commands = ran(WORK, "mountpoint")
    assert code == 0
    assert commands == [
        "mkdir -p /srv/data",
        "mountpoint -q /srv/data",
        "chown 110000:110000 /srv/data",
        "pct set 101 -features keyctl=1,nesting=1 -mp1 /srv/data,mp=/data",
        "pct reboot 101",
    ]


def test_a_command_that_fails_ends_the_list_with_its_code() -> None:
    assert ran(WORK, "mkdir") == (32, ["mkdir -p /srv/data"])
    code, commands = ran(WORK, "mountpoint", "chown")
    assert (code, commands[-1]) == (32, "chown 110000:110000 /srv/data")
    assert ran(WORK, "pct")[0] == 32


@pytest.mark.parametrize(
    ("text", "failing", "code", "commands"),
    [
        ("a || b", (), 0, ["a"]),
        ("a || b", ("a",), 0, ["a", "b"]),
        ("a && b || c", ("a",), 0, ["a", "c"]),
        ("a; b", ("a",), 0, ["a", "b"]),
        ("a\nb", ("a",), 32, ["a", "b"]),
        ("a\nb", ("b",), 32, ["a", "b"]),
        ("{ a; b; } && c", ("b",), 32, ["a", "b"]),
        ("{\na\nb\n} && c", (), 0, ["a", "b", "c"]),
        ("a || { b && c; } || d", ("a", "c"), 0, ["a", "b", "c", "d"]),
        ("echo 'a && b' # && c", (), 0, ["echo a && b"]),
        ("# only a comment", (), 0, []),
    ],
)
def test_lists_and_groups_run_as_in_a_shell(
    text: str, failing: tuple[str, ...], code: int, commands: list[str]
) -> None:
    assert ran(text, *failing) == (code, commands)


@pytest.mark.parametrize("text", ["a &&", "{ a;", "a }", "&& a", "a | b", "a > b", "a &", "echo 'a", "(a)"])
def test_a_line_that_this_shell_cannot_run_is_an_error(text: str) -> None:
    with pytest.raises(SandboxError):
        ran(text)
