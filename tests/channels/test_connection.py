"""One program on a machine answers all requests of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.base.process import Pipes, overheard
from paddock.channels import Guest, OutputCut
from paddock.channels.connection import Connection, connected, connections, end_connections
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import ask, tried
from paddock.channels.ssh import SshGuest
from paddock.onboard.program.refusal import WRONG
from paddock.onboard.state.version import RecordUpgrade
from paddock.onboard.vacant import FindVacant, Vacant
from sshd import Sshd

GUEST = LocalGuest()


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    with connections():
        yield


def vacant(guest: Guest = GUEST) -> Vacant:
    return ask(guest, "looking", FindVacant("nobody", 1), into=Vacant)


def program(guest: Guest = GUEST) -> Connection:
    found = connected(guest)
    assert found
    return found


def test_requests_of_a_run_are_answered_by_one_program() -> None:
    vacant()
    first = program()
    assert tried(GUEST, RecordUpgrade("/nowhere", "on", {})).result.code == WRONG
    assert vacant().uid == 65534
    assert program() is first


def test_a_run_without_the_context_starts_the_program_for_each_request() -> None:
    with overheard(print):
        assert connected(GUEST) is None, "a person watches what a long request prints"
    assert connected(GUEST) is not None


def test_a_program_that_has_ended_is_started_again() -> None:
    vacant()
    first = program()
    first.close()
    vacant()
    assert program() is not first


def test_a_machine_that_changes_gets_another_connection() -> None:
    vacant()
    first = program()
    end_connections()
    vacant()
    assert not first.is_open
    assert program() is not first


def test_a_connection_over_ssh_is_used_for_all_requests(server: Sshd, tmp_path: Path) -> None:
    guest = SshGuest("box", "127.0.0.1", port=server.port, key=tmp_path / "id", host_keys=(server.key,))
    assert vacant(guest) == vacant(guest) or vacant(guest).uid == 65534
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    assert len(children) == 1


def test_a_flood_instead_of_an_answer_is_cut_off() -> None:
    class Flooded(LocalGuest):
        @contextmanager
        def piped(self, _: object) -> Iterator[Pipes]:
            with super().piped(["sh", "-c", "yes '\"say\"' | tr '\\n' x"]) as pipes:
                yield pipes

    with pytest.raises(OutputCut):
        Connection(Flooded()).ask(FindVacant("nobody", 1), b"", 60)


def test_the_answer_of_a_request_that_was_given_up_is_no_other_requests_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    vacant()
    first = program()
    with monkeypatch.context() as patch:
        patch.setattr("paddock.channels.connection.answer_of", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            vacant()
    assert not first.is_open
    assert vacant().uid == 65534
