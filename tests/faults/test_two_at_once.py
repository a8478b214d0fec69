"""Two runs at once: one works, the other says who, and no volume ever has two writers."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import pytest

from faults.writers import Writers, intruders
from levels import by_level
from paddock.base.errors import PaddockError, Refused
from paddock.core.converge import cycle, down, up
from paddock.core.lock import Busy
from paddock.kinds import load
from paddock.places.proxmox.safety.settle import Contest
from places.laptops import Race, make_race
from places.node import CATTLE, PET, Node, PaperAgent, play_ssh
from places.test_race import run_race

Verb = Callable[[PaperAgent], str]

PAIRS: Final[dict[str, tuple[Verb, Verb]]] = {
    "up and up": (up, up),
    "up and down": (up, down),
    "down and up": (down, up),
    "cycle and up": (cycle, up),
}
_counts: Counter[str] = Counter()


class WatchedNode(Node):
    """A node on which the agents write at each request, and another run may come in between."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.writers = Writers(self)
        self.between: Callable[[int], None] | None = None  # called before each writing request, with its number
        self._written = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        between = self.between
        if between and request.method != "GET":
            self._written += 1
            self.between = None
            between(self._written)
            self.between = between
        answer = super().handle_request(request)
        self.writers.write()
        return answer


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedNode:
    node = WatchedNode(tmp_path)
    play_ssh(monkeypatch, node)
    return node


def another_checkout(node: Node, folder: Path, address: str = "https://node:8006") -> PaperAgent:
    """The agent in a second copy of the file, which may use another address of the node."""
    node.agent(alongside=True)
    (folder / "copy").mkdir(exist_ok=True)
    for name in ("token", "id", "id.pub"):
        (folder / "copy" / name).write_bytes((folder / name).read_bytes())
        (folder / "copy" / name).chmod(0o600)
    said = json.loads((folder / "paddock.yaml").read_text())
    said["places"]["home"]["proxmox"]["url"] = address
    (folder / "copy/paddock.yaml").write_text(json.dumps(said))
    return node.agent_of(load(folder / "copy/paddock.yaml"), "bee", alongside=True)


def begin(node: Node, first: Verb) -> None:
    """Let the agent be up, unless the first verb brings it up."""
    if first is not up:
        up(node.agent())


def expect_one_of_each(node: WatchedNode) -> None:
    assert node.vmids == [PET, CATTLE] or (len(node.vmids) == 2 and len(node.running) == 1), node.vmids
    assert node.config(PET)["protection"] == 1
    assert not any("paddock-claim" in str(node.config(vmid)["description"]) for vmid in node.vmids)
    assert node.writers.lines
    assert node.writers.intruders == []


# On one computer


@pytest.mark.parametrize("checkouts", [1, 2])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_second_run_on_this_computer_names_the_first_at_every_step(
    node: WatchedNode, tmp_path: Path, pair: str, checkouts: int
) -> None:
    first, second = PAIRS[pair]
    begin(node, first)
    told: list[str] = []

    def come_between(_: int) -> None:
        agent = node.agent(alongside=True) if checkouts == 1 else another_checkout(node, tmp_path)
        with pytest.raises(Busy) as caught:
            second(agent)
        told.append(caught.value.message)

    node.between = come_between
    first(node.agent())
    node.between = None
    assert len(told) >= 6
    assert set(told) == {f"bee: another run is working on it (process {os.getpid()})"}
    _counts["told who"] += len(told)
    _counts["tried"] += len(told)
    up(node.agent())
    expect_one_of_each(node)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_second_run_over_another_address_of_the_node_is_kept_away_by_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: str
) -> None:
    """The locks of this computer do not see it. It comes before one request of the first run, in turn before each."""
    first, second = PAIRS[pair]
    step = by_level(5, 1)
    for at in range(1, 20, step):
        folder = tmp_path / f"at{at}"
        folder.mkdir()
        node = WatchedNode(folder)
        play_ssh(monkeypatch, node)
        begin(node, first)
        if not _come_between(node, folder, first, second, at):
            break
        up(node.agent())
        expect_one_of_each(node)


def _come_between(node: WatchedNode, folder: Path, first: Verb, second: Verb, at: int) -> bool:
    """Run the second verb before a certain request of the first; return whether there is such a request."""
    ends: dict[str, PaddockError | None] = {}
    runs: dict[str, str] = {}

    def attempt(name: str, verb: Verb, agent: PaperAgent) -> None:
        runs[name], ends[name] = agent.node._holder.name, None
        try:
            verb(agent)
        except PaddockError as error:
            ends[name] = error

    def come_between(number: int) -> None:
        if number == at:
            attempt("second", second, another_checkout(node, folder, "https://node.lan:8006"))

    node.between = come_between
    attempt("first", first, node.agent())
    node.between = None
    if "second" not in ends:
        return False
    _counts["tried"] += 1
    losers = {name: error for name, error in ends.items() if error}
    assert len(losers) < 2, losers
    for name, error in losers.items():
        winner = runs["first" if name == "second" else "second"]
        assert isinstance(error, Refused), error
        assert winner in error.message or "is taken by something that the token may not see" in error.message, error
        _counts["told who"] += 1
    _counts["both succeeded, one after the other"] += not losers
    return True


# On two computers


def watch(race: Race) -> Writers:
    """Let the agents write at each request of a race."""
    writers, check = Writers(race.node), race.check

    def checked() -> None:
        check()
        writers.write()

    race.check = checked  # type: ignore[method-assign]
    return writers


def test_two_laptops_never_have_two_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, show_table: Callable[[str], None]
) -> None:
    lines = 0
    for seed in range(1000, 1000 + by_level(6, 150)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        node = Node(folder)
        with monkeypatch.context() as patch:
            play_ssh(patch, node)
            race = make_race(node, seed, patch, folder)
            writers = watch(race)
            run_race(race, seed, deadly=seed % 2 == 1)
        assert writers.intruders == [], f"seed {seed}\n{race}"
        lines += writers.lines
        ends = [error for laptop in race.laptops for _, error in laptop.ends]
        _counts["tried"] += 1
        _counts["told who"] += sum(error is not None for error in ends)
    assert lines
    _counts["lines that agents wrote"] += lines
    show_table("\n".join(f"{name}: {count}" for name, count in sorted(_counts.items())) + "\ntwo writers: 0")


# The proof can fail


@pytest.mark.parametrize(
    ("journal", "found"),
    [
        ("", []),
        ("aaa", []),
        ("aabbbcc", []),
        ("aba", ["a"]),
        ("ababcb", ["a", "b", "b"]),
    ],
)
def test_a_writer_that_is_not_alone_is_found_in_the_journal(journal: str, found: list[str]) -> None:
    assert intruders(journal) == found


@pytest.fixture
def _no_contest(monkeypatch: pytest.MonkeyPatch) -> None:
    """New pets and machines are kept without a look at others."""
    monkeypatch.setattr(Contest, "_win", lambda self, entry: None)


@pytest.mark.usefixtures("_no_contest")
def test_two_writers_are_seen_if_runs_do_not_look_at_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(30):
        folder = tmp_path / str(seed)
        folder.mkdir()
        node = Node(folder)
        with monkeypatch.context() as patch:
            play_ssh(patch, node)
            up(node.agent())
            down(node.agent())
            race = make_race(node, seed, patch, folder)
            race.pass_time(timedelta(hours=1))
            writers = Writers(node)
            race.check = writers.write  # type: ignore[method-assign]
            race.run(dict.fromkeys(("one", "two"), partial(race.attempt, up, "none")))
        if writers.intruders:
            return
    pytest.fail("no race had two writers: the proof cannot fail")
