"""A host that lies to a survey: its report cannot break Paddock, nor write to the terminal."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from levels import by_level
from paddock.errors import PaddockError
from paddock.places.host.survey import parsed, shapes
from paddock.visible import one_line

NAMES = [
    *("system", "architecture", "uid", "account", "init", "release", "nixos", "libc", "python", "installs", "manager"),
    *("lingers", "sudo", "installed", "docker", "podman", "free", "other"),
]
TRUE = [("system", "Linux"), ("architecture", "x86_64"), ("init", "systemd"), ("libc", "glibc 2.36")]
ESCAPE = "\x1b]0;title\x07\u202e"


def texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [text for each in values for text in texts(each)]


@settings(max_examples=by_level(150, 3000), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.text() | st.sampled_from(["0", "yes", "running", "docker"]))))
@example([*TRUE, ("account", ESCAPE), ("release", f'PRETTY_NAME="{ESCAPE}"\nID={ESCAPE}'), ("docker", f"1 {ESCAPE}")])
@example([*TRUE, ("uid", "0"), ("free", "9" * 5000), ("libc", f"glibc {'9' * 5000}.1"), ("podman", "4.3.1 true")])
@example([("release", "ID='\n=\n='='\nID=a b")])
def test_no_report_of_a_host_breaks_a_survey_or_reaches_the_terminal(records: list[tuple[str, str]]) -> None:
    printed = "\0report=1\0" + "".join(f"{name}={value}\0" for name, value in records) + "end=ok\0"
    try:
        host = parsed(printed)
    except PaddockError:
        assert any("\0" in value for _, value in records)
        return
    for fits in (shapes(host), shapes(host, local=True)):
        assert all(one_line(text) == text for text in texts([asdict(host), *map(asdict, fits)]))


@pytest.mark.parametrize("printed", ["", "root@host:~# ", "\0report=1\0system=Linux\0", "\0report=1\0x\0end=ok\0"])
def test_an_incomplete_report_is_rejected(printed: str) -> None:
    with pytest.raises(PaddockError, match="report"):
        parsed(printed)
