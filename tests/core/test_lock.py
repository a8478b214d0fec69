"""Local locks are named by the address of a place and the agent's name, not by the place's name in a file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from paddock.core.deployment import Deployment
from paddock.core.lock import Busy, agent_lock, place_lock
from paddock.core.on_machine import OnMachine
from paddock.file.models.whole import HostSpec
from paddock.kinds import load
from paddock.places.contract import AnyPlace
from paddock.places.host.place import HostPlace
from paddock.show.reporter import Reporter


def agent(folder: Path, host: str, nickname: str = "box") -> Deployment:
    folder.mkdir(exist_ok=True)
    bee = f"{{kind: service, place: {nickname}, command: [x]}}"
    (folder / "paddock.yaml").write_text(
        f"project: home\nplaces: {{{nickname}: {{host: {host}}}}}\nagents: {{bee: {bee}}}\n"
    )
    loaded = load(folder / "paddock.yaml")
    spec = loaded.spec.places[nickname].host
    assert isinstance(spec, HostSpec)
    place = cast("AnyPlace", HostPlace(nickname, spec, folder))
    return Deployment.declared("bee", loaded, place, Reporter(), OnMachine())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{address: a.lan}", "{address: b.lan}"),
        ("{address: a.lan}", "{address: a.lan, port: 2222}"),
        ("{address: a.lan}", "{}"),
        ("{address: a.lan, user: x, scope: user}", "{address: a.lan, user: y, scope: user}"),
    ],
)
def test_agents_with_one_name_in_two_places_have_two_locks(tmp_path: Path, one: str, other: str) -> None:
    with agent_lock(agent(tmp_path / "a", one)), agent_lock(agent(tmp_path / "b", other)):
        pass


@pytest.mark.parametrize("host", ["{}", "{address: a.lan}", "{address: A.lan, key: ~/.ssh/other}"])
def test_one_agent_in_two_files_has_one_lock(tmp_path: Path, host: str) -> None:
    first = agent(tmp_path / "a", host.lower(), "box")
    with agent_lock(first), pytest.raises(Busy, match="bee: another run is working on it"):
        agent_lock(agent(tmp_path / "b", host, "office")).__enter__()


def test_waiting_for_a_place_is_shown_only_while_another_agent_uses_it(tmp_path: Path) -> None:
    place = agent(tmp_path, "{}").place
    shown: list[str] = []
    waits = threading.Event()

    @contextmanager
    def waiting() -> Iterator[None]:
        shown.append("waits")
        waits.set()
        yield
        shown.append("goes on")

    def second() -> None:
        with place_lock(place, waiting):
            shown.append("has it")

    with place_lock(place, waiting):
        other = threading.Thread(target=second)
        other.start()
        assert waits.wait(20)
        assert shown == ["waits"]
    other.join(20)
    assert shown == ["waits", "goes on", "has it"]
