"""Paddock is killed while it backs up, restores and restarts an agent. Nothing is lost, and a later run goes on."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

import readable_copy
from levels import by_level, slow_proof
from live.manual import api_client, container, destroy
from live.node import Node, kill, kill_at_step, wait_for
from live.test_lease import by_ssh

pytestmark = pytest.mark.live

HOME: Final = "/var/lib/paddock/bee/home"
# It writes numbered rows without a pause. Of two that run at once on one state, one writes a file that says so.
PROGRAM: Final = """
import fcntl, os, sqlite3, time
os.chdir(os.environ["HOME"])
lock = open("writer", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open("two-writers", "w")
database = sqlite3.connect("said.db", isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
database.execute("CREATE TABLE IF NOT EXISTS said (number INTEGER PRIMARY KEY, text)")
while True:
    database.execute("INSERT INTO said (text) VALUES ('something that nobody else knows')")
    time.sleep(0.01)
"""
# Runs on the machine, and knows nothing of Paddock.
EXAMINE: Final = f"""
import json, os, sqlite3
database = sqlite3.connect("file:{HOME}/said.db?mode=ro", uri=True)
count, last = database.execute("SELECT count(*), max(number) FROM said").fetchone()
integrity = database.execute("PRAGMA integrity_check").fetchone()[0]
print(json.dumps([integrity, count, last, os.path.exists("{HOME}/two-writers")]))
"""
LEFTOVERS: Final = "ls -A /var/lib/paddock/bee/.paddock | grep -vxE 'identity|lease|holder|locked' || true"
AGENT: Final[dict[str, Any]] = {
    "kind": "service",
    "place": "box",
    "command": ["python3", "-c", PROGRAM],
    "user": {"name": "bee", "uid": 4343},
    "backup": {"to": "./bee"},
}
RESTORE: Final = (
    *("backup.reach", "state.receive", "agent.stop", "state.save", "state.swap"),
    *("agent.configure", "agent.answer", "state.finish"),
)
MOMENTS: Final = [
    *((("backup", "bee"), "backup.save", event) for event in ("begin", "done")),
    *((("restore", "bee", "--yes"), step, event) for step in RESTORE for event in ("begin", "done")),
    *((("restart", "bee"), "agent.stop", event) for event in ("begin", "done")),
]
IN_EVERY_RUN: Final = {("state.swap", "begin"), ("agent.configure", "begin")}


class Bee:
    """An agent on a host over ssh, with a file that has a place for its backups."""

    def __init__(self, node: Node, where: str) -> None:
        self.node, self.where = node, where
        tree = by_ssh(node, where)
        tree["agents"] = {"bee": AGENT}
        self.path = str(node.write("bee.yaml", tree))
        self.folder = node.stage.folder / "bee/home_bee"

    def paddock(self, *words: str) -> str:
        return self.node.paddock(*words, "-f", self.path).stdout

    def rows(self) -> int:
        """Return how many rows the agent has written; assert that none is lost and that it was always alone."""
        told = self.node.shell(
            self.where, f"setpriv --reuid bee --regid bee --clear-groups python3 -c {shlex.quote(EXAMINE)}"
        )
        integrity, count, last, two = json.loads(told)
        assert (integrity, two) == ("ok", False)
        assert count == last
        return int(count)

    def expect_one_whole_copy(self, least: int) -> None:
        """Assert that the state has at least so many rows, and that each backup in the list is complete."""
        assert self.rows() >= least
        wanted = self.node.stage.folder / "wanted.json"
        wanted.write_text(json.dumps({"said.db": ""}))
        told = subprocess.run(
            [sys.executable, readable_copy.__file__, "--backups", str(self.folder), str(wanted)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert told.returncode == 0, told.stdout
        complete = [line.partition(": ")[0] for line in told.stdout.splitlines() if line.endswith(": a complete copy")]
        assert len(complete) == len(list(self.folder.glob("*.json"))), told.stdout

    def expect_to_go_on(self) -> None:
        """Assert that `up` ends what was begun."""
        self.paddock("up")
        assert self.paddock("plan") == "bee: nothing to do\n"
        found = self.rows()
        wait_for(lambda: self.rows() > found)
        assert self.node.shell(self.where, LEFTOVERS) == ""


@pytest.fixture(scope="module")
def bee(node: Node) -> Iterator[Bee]:
    api = api_client(node)
    found = Bee(node, container(node, api, 241))
    found.paddock("up")
    wait_for(lambda: found.rows() > 10)
    found.paddock("backup", "bee")
    yield found
    destroy(api, 241)


def mark(step: str, event: str) -> Any:
    return () if (step, event) in IN_EVERY_RUN else slow_proof


def saved_rows(bee: Bee) -> int:
    """Make a backup and return how many rows are in it, at least.

    Older backups were examined before and are removed: to read all of them after each kill would take minutes.
    """
    for manifest in sorted(bee.folder.glob("*.json"))[:-2]:
        for file in bee.folder.glob(f"{manifest.stem}.*"):
            file.unlink()
    least = bee.rows()
    bee.paddock("backup", "bee")
    return least


@pytest.mark.parametrize(
    ("words", "step", "event"),
    [
        pytest.param(words, step, event, id=f"{words[0]}-{step}-{event}", marks=mark(step, event))
        for words, step, event in MOMENTS
    ],
)
def test_a_kill_at_any_step_loses_nothing(bee: Bee, words: tuple[str, ...], step: str, event: str) -> None:
    least = saved_rows(bee)
    kill_at_step(bee.node, step, *words, "-f", bee.path, event=event)
    bee.expect_one_whole_copy(least)
    bee.expect_to_go_on()
    bee.expect_one_whole_copy(least)


@slow_proof
def test_kills_at_any_moment_lose_nothing(bee: Bee) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(by_level(0, 25)):
        least = saved_rows(bee)
        words = chance.choice([words for words, _, _ in MOMENTS])
        running = bee.node.start(*words, "-f", bee.path)
        time.sleep(chance.uniform(0, 6))
        kill(running, may_have_ended=True)
        bee.expect_one_whole_copy(least)
        bee.expect_to_go_on()
