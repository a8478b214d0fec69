"""Configuring an agent whose state was that of a copy: it is made whole first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paddock.base.process import CommandFailed
from paddock.base.secret import Secret
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import ask
from paddock.core import streams
from paddock.core.on_machine import _apply
from paddock.core.resolve import Resolved
from paddock.file.agent_id import AgentId
from paddock.kinds.service import ServiceSpec
from paddock.kinds.workload import File, Process, Workload
from paddock.onboard.configure import Sent
from paddock.onboard.program.refusal import SET_ASIDE
from paddock.runtimes.process.runtime import ForegroundProcess

GUEST = LocalGuest()
RUNTIME = ForegroundProcess(
    AgentId("home", "toy"), ServiceSpec.model_validate({"kind": "service", "place": "here", "command": ["true"]})
)


def sent(text: str = "first", **facts: Any) -> Sent:
    """Return a bundle that is larger than a pipe."""
    process = Process("main", ("true",), {}, "/", stop_seconds=1)
    workload = Workload((process,), (File("note", f"{text}\n{'x' * 200_000}"),), (), ())
    return RUNTIME.bundle(workload, None, mounted=False).sent({"KEY": Secret(f"canary of {text}")}, {}, **facts)


def set_aside() -> Path:
    folder = Path(RUNTIME.paths.state, ".paddock/set-aside")
    folder.mkdir()
    return folder


def deployed() -> Mapping[str, str]:
    """Return the note of the current bundle, the secrets, and what is beside the bundles."""
    root = Path(RUNTIME.paths.root)
    note = (root / "current/note").read_text().splitlines()[0]
    return {"note": note, "secrets": (root / "secrets.env").read_text(), "incoming": str((root / "incoming").exists())}


def test_a_bundle_is_applied_when_nothing_is_set_aside() -> None:
    ask(GUEST, "applying", RUNTIME.apply(sent(whole=True)))
    assert deployed() == {"note": "first", "secrets": 'KEY="canary of first"\n', "incoming": "False"}


def test_nothing_changes_while_something_is_set_aside() -> None:
    ask(GUEST, "applying", RUNTIME.apply(sent()))
    before = deployed()
    folder = set_aside()
    with pytest.raises(CommandFailed) as refused:
        ask(GUEST, "applying", RUNTIME.apply(sent("second", whole=True)))
    assert refused.value.result.code == SET_ASIDE
    assert deployed() == before
    folder.rmdir()
    ask(GUEST, "applying", RUNTIME.apply(sent("second", whole=True)))
    assert deployed()["note"] == "second"


@pytest.mark.parametrize("copy_of", [None, "bee"], ids=["whole", "copy"])
def test_an_agent_that_is_no_copy_is_made_whole_and_applied(
    monkeypatch: pytest.MonkeyPatch, copy_of: str | None
) -> None:
    ask(GUEST, "applying", RUNTIME.apply(sent()))
    folder, said, made = set_aside(), list[str](), list[str]()

    def restoration(_agent: object, _guest: object, what: str) -> list[str]:
        made.append(what)
        folder.rmdir()
        return ["the connectors are back"]

    monkeypatch.setattr(streams, "restoration", restoration)
    agent = SimpleNamespace(
        name="toy",
        copy_of=copy_of,
        sent=lambda **facts: sent("second", **facts),
        reporter=SimpleNamespace(say=said.append),
    )
    _apply(cast(Resolved, agent), GUEST, RUNTIME.apply)
    assert deployed()["note"] == "second"
    assert (made, said) == ((["whole"], ["the connectors are back"]) if copy_of is None else ([], []))
    assert folder.exists() == (copy_of is not None)
