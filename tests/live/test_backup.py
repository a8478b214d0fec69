"""Backups of an agent that is busy, and their way back."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from live.node import Node, wait_for
from paddock.demo import FACT, QUESTION

pytestmark = pytest.mark.live

HOME = "/var/lib/paddock/hermes/home/.hermes"
# Commits numbered rows to a database in WAL mode as fast as it can, and says how many it has committed.
WRITER = f"""
import os, sqlite3
database = sqlite3.connect("{HOME}/busy.db", isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
database.execute("CREATE TABLE IF NOT EXISTS said (number INTEGER PRIMARY KEY, text)")
[number] = database.execute("SELECT coalesce(max(number), 0) FROM said").fetchone()
while True:
    number += 1
    database.execute("INSERT INTO said VALUES (?, ?)", (number, "word " * 50))
    with open("{HOME}/busy.committed.new", "w") as file:
        file.write(str(number))
    os.rename("{HOME}/busy.committed.new", "{HOME}/busy.committed")
"""
AS_AGENT = "setpriv --reuid hermes --regid hermes --clear-groups"
COUNTED = """
import json, sqlite3, sys
database = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True)
tables = [name for [name] in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
counts = {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
print(json.dumps({"integrity": database.execute("PRAGMA integrity_check").fetchone()[0], **counts}))
"""


def counted(agent: Node, database: str) -> dict[str, object]:
    """Return the number of rows of each table of a database on the machine."""
    return dict(json.loads(agent.machine(f"{AS_AGENT} python3 -c {shlex.quote(COUNTED)} {HOME}/{database}")))


def committed(agent: Node) -> int:
    return int(agent.machine(f"cat {HOME}/busy.committed"))


@pytest.fixture
def busy(agent: Node) -> Iterator[Node]:
    """The agent, with a program of its account that writes without a pause."""
    agent.machine(f"systemd-run --quiet --unit=busy --uid=hermes python3 -c {shlex.quote(WRITER)}")
    wait_for(lambda: "busy.committed" in agent.machine(f"ls {HOME}") and committed(agent) > 200)
    yield agent
    if agent.status()["status"] != "absent":
        agent.machine(f"systemctl stop busy; rm -f {HOME}/busy*")


@pytest.fixture
def saving(agent: Node) -> str:
    """The file of the agent, with a folder for backups."""
    tree = agent.file()
    tree["agents"]["hermes"]["backup"] = {"to": "./backups"}
    return str(agent.write("saving.yaml", tree))


def test_a_backup_of_a_busy_agent_comes_back_on_another_machine(busy: Node, saving: str) -> None:
    busy.ask(f"Remember: {FACT}")
    texts = f"cd {HOME} && sha256sum memories/*.md SOUL.md; stat -c '%a %U %G %Y %n' memories/*.md SOUL.md"
    sums, messages, before = busy.machine(texts), counted(busy, "state.db"), committed(busy)
    said = busy.paddock("backup", "-f", saving, "hermes").stdout
    after = committed(busy)
    assert after > before, "the agent was not busy"
    assert "hermes: " in said
    busy.paddock("backup", "check", "-f", saving, "hermes")

    machine = busy.machine("cat /etc/machine-id")
    busy.paddock("down")
    busy.paddock("forget", "hermes", "--name", "hermes")
    assert "restored from backup" in busy.paddock("restore", "-f", saving, "hermes", "--yes").stdout

    assert busy.machine("cat /etc/machine-id") != machine
    assert busy.machine(texts) == sums
    found = counted(busy, "state.db")
    assert found["integrity"] == "ok"
    for table in ("sessions", "messages"):
        assert int(str(found[table])) >= int(str(messages[table]))  # verification has added some
    rows = counted(busy, "busy.db")
    assert rows["integrity"] == "ok"
    assert before <= int(str(rows["said"])) <= after
    assert busy.ask(QUESTION) == FACT
    assert busy.paddock("plan", "-f", saving).stdout == "hermes: nothing to do\n"
