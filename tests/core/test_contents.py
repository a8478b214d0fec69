"""The programs of a template are checked before machines are made from it."""

from __future__ import annotations

import pytest

from paddock.base.process import CommandFailed
from paddock.channels.local import LocalGuest
from paddock.core.container import TemplateContents
from paddock.runtimes import machine


@pytest.fixture(autouse=True)
def _unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the last step, which would clean up this machine."""
    monkeypatch.setattr(machine, "finish_template", lambda: ["echo", "manifest"])


def test_a_template_with_all_programs_is_finished() -> None:
    assert TemplateContents((), None).put_into(LocalGuest(), "/nowhere", ["sh", "ls"]) == "manifest\n"


def test_a_template_that_lacks_a_program_is_an_error() -> None:
    with pytest.raises(CommandFailed, match="there is no no-such-program: is a package missing under packages:"):
        TemplateContents((), None).put_into(LocalGuest(), "/nowhere", ["sh", "no-such-program"])
