"""One agent with its rooms, where its machine cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.base.errors import Refused
from paddock.base.process import Result
from paddock.channels import Unreachable
from paddock.channels.ssh import SshGuest
from paddock.core import converge
from paddock.core.deployment import Deployment
from paddock.core.open import deployments
from paddock.kinds import load
from paddock.show.reporter import Reporter

FILE = """\
project: home
places: {far: {host: {address: 192.0.2.9}}}
agents: {web: {kind: service, place: far, command: [/bin/true]}}
"""


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    def refuse(self: SshGuest, *_: object, **__: object) -> Result:
        raise Unreachable("far cannot be reached", hint="is it up?")

    for way in ("run", "piped"):
        monkeypatch.setattr(SshGuest, way, refuse)
    (tmp_path / "paddock.yaml").write_text(FILE)
    with deployments(load(tmp_path / "paddock.yaml"), [], Reporter()) as found:
        yield found[0]


def test_nothing_is_promised_of_a_machine_that_cannot_be_reached(far: Deployment) -> None:
    plan = converge.plan(far)
    assert not plan.steps
    assert [refusal.reason for refusal in plan.refusals] == ["far cannot be reached"]


@pytest.mark.parametrize("verb", [converge.up, converge.down])
def test_no_verb_says_that_it_is_done(far: Deployment, verb: object) -> None:
    with pytest.raises(Refused, match="far cannot be reached"):
        verb(far)  # type: ignore[operator]


def test_it_is_not_said_that_there_is_nothing_to_forget(far: Deployment) -> None:
    seen, plan = converge.plan_forget(far)
    with pytest.raises(Refused, match="far cannot be reached"):
        converge.forget(far, plan, seen)
