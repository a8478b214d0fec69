"""What a template holds is checked before machines are made from it."""

from __future__ import annotations

import pytest

from paddock.guests.local import LocalGuest
from paddock.process import CommandFailed
from paddock.run import contents
from paddock.run.contents import TemplateContents


@pytest.fixture(autouse=True)
def _no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after the check would tidy up this machine."""
    monkeypatch.setattr(contents, "script", lambda *parts, arguments: ["echo", "manifest"])


def test_a_template_with_its_programs_is_one() -> None:
    assert TemplateContents((), None).put_into(LocalGuest(), "/nowhere", ["sh", "ls"]) == "manifest\n"


def test_a_template_without_a_program_is_none() -> None:
    with pytest.raises(CommandFailed, match="there is no no-such-program: is a package missing in packages:"):
        TemplateContents((), None).put_into(LocalGuest(), "/nowhere", ["sh", "no-such-program"])
