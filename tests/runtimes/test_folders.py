"""The machine refuses the same folders for a state as the file does, with links resolved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.file.rules import folders
from paddock.onboard.agent import Agent
from paddock.onboard.program.refusal import Refusal
from paddock.onboard.state import path as on_machine
from paddock.onboard.state.claim import ClaimState
from performed import performed


def agent_at(state: str) -> Agent:
    where = ("/etc/paddock/home_toy", "/opt/paddock/.store", "/var/lib/paddock/.agents/home_toy")
    return Agent("system", "home_toy", (), *where, state)


def let_through(*paths: str) -> list[str]:
    """Return the paths that the machine accepts for a state."""

    def accepted() -> Iterator[str]:
        for state in paths:
            try:
                on_machine.check_state_path(agent_at(state), state)
            except Refusal:
                continue
            yield state

    return list(accepted())


def test_the_file_and_the_machine_have_the_same_folders_of_the_system() -> None:
    assert sorted(on_machine._ALONE) == sorted([*folders._SHARED, *folders._EMPTY])
    assert sorted(on_machine._WITH_EVERYTHING_BELOW) == sorted(folders._WHOLE)


def test_the_file_and_the_machine_refuse_the_same_system_folders_for_a_state() -> None:
    code, configuration, states = folders._OWN
    below = [f"{folder}/x" for folder in (*folders._WHOLE, code, configuration)]
    below += [f"{states}/.agents", f"{states}/.agents/home_toy", f"{states}/x/y"]
    refused = [*folders._WHOLE, *folders._SHARED, *folders._EMPTY, code, configuration, states, *below]
    assert let_through(*refused) == []
    assert all(folders.wrong_for_a_state(path) for path in refused)


def test_the_file_and_the_machine_accept_other_folders_for_a_state(tmp_path: Path) -> None:
    paths = ["/srv/toy", "/home/toy", "/opt/toy", "/var/lib/toy", "/var/lib/paddock/toy", "/root/toy", "/etcetera"]
    assert let_through(*paths, "/srv/a b", str(tmp_path)) == [*paths, "/srv/a b", str(tmp_path)]
    assert not any(folders.wrong_for_a_state(path) for path in paths)


def test_the_refusal_of_a_link_names_the_path_and_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/usr/share")
    state = str(tmp_path / "link/toy")
    claim = ClaimState(agent_at(state), False, "toy", 1, 1)
    with pytest.raises(Refusal, match=f"{state} leads to /usr/share/toy, and /usr/share/toy is the system's own"):
        performed(claim)
