"""Paddock is killed at its steps on real containers: a sample of the crash matrix, with one table for all of it.

The agent writes numbered rows to a database without a pause. After each kill the same verb is run again. No row may be
missing, and nothing of the killed run may be left on the node. tests/live/test_kills.py does the same on a host.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from faults.matrix import VERBS
from levels import slow_proof
from live.conftest import node
from live.manual import api_client
from live.node import Node, kill_at_step, wait_for
from live.test_kills import AGENT, EXAMINE

__all__ = ["node"]
pytestmark = [pytest.mark.live, slow_proof]

EVENTS: Final = ("begin", "done")
REMOVED: Final = ("cattle.stop", "cattle.detach", "cattle.destroy")
CREATED: Final = ("cattle.clone", "cattle.start", "cattle.reach", "agent.configure")
GROWN: Final = ("cattle.stop", "pet.grow", "cattle.start", "state.check")
BUILT: Final = ("template.create", "template.start", "template.reach", "template.install", "template.seal")
# Verb, step and event; the verbs are run in this order, so that each finds what it needs.
POINTS: Final = [
    *(("cycle", step, event) for step in (*REMOVED, *CREATED, "agent.answer") for event in EVENTS),
    *(("grow", step, event) for step in GROWN for event in EVENTS),
    *(("template build", step, "begin") for step in BUILT),
    *(
        (verb, step, event)
        for verb, steps in (("down", REMOVED), ("up", CREATED))
        for step in steps
        for event in EVENTS
    ),
]
UNFINISHED: Final = ("role=builder", "role=reader", "role=spare", " new=", "paddock-claim", "forgetting")


class Pen:
    """An agent in a machine of the node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.size = 1
        self.address = ""  # of its machine, while it is known to be up and as the file says
        self.places = node.file()["places"]
        self.path = self.written()

    def written(self) -> str:
        """Write the file and return its path."""
        machine = {"cores": 1, "memory": "512M", "disk": "4G"}
        spec = {**AGENT, "place": "box", "state": {"size": f"{self.size}G"}, "machine": machine}
        del spec["backup"]
        tree = {"project": "pen", "places": self.places, "agents": {"bee": spec}}
        return str(self.node.write("pen.yaml", tree))

    def paddock(self, *words: str) -> str:
        return self.node.paddock(*words, "-f", self.path).stdout

    def rows(self) -> int:
        """Return how many rows there are; assert that none is missing and that one process wrote them."""
        command = f"setpriv --reuid bee --regid bee --clear-groups python3 -c {shlex.quote(EXAMINE)}"
        integrity, count, last, two = json.loads(self.node.shell(self.address, command))
        assert (integrity, two, count) == ("ok", False, last)
        return int(count)

    def prepare(self, verb: str) -> int:
        """Bring the agent to where the verb begins; return how many rows it has."""
        if not self.address:
            self.paddock("up")
            self.expect_up()
        least, self.address = self.rows(), ""
        if verb == "up":
            self.paddock("down")
        if verb == "grow":
            self.size += 1
            self.written()
        return least

    def expect_up(self) -> None:
        """Assert that nothing is left to do, and look up the machine."""
        assert self.paddock("plan").startswith("bee: nothing to do\n")  # it may have a note about the new template
        self.address = str(json.loads(self.paddock("status", "--json"))[0]["address"])

    def words(self, verb: str) -> list[str]:
        verbs = {"template build": ["template", "refresh"], "grow": ["up"]}
        return [*verbs.get(verb, [verb]), "-f", self.path]

    def expect_clean(self, before: set[str]) -> None:
        """Assert that no builder, copy, claim, lock or volume of a killed run is on the node."""
        api = api_client(self.node)
        try:
            for row in api.get("/nodes/pve/lxc"):
                config = api.get(f"/nodes/pve/lxc/{row['vmid']}/config")
                notes = str(config.get("description", ""))
                template = bool(config.get("template"))
                left = [words for words in UNFINISHED if words in notes and not (template and "claim" in words)]
                assert not left, f"{row['vmid']}: {notes}"
                assert "lock" not in config, config
                assert "role=pet" not in notes or config["protection"] == 1
            named = str([api.get(f"/nodes/pve/lxc/{row['vmid']}/config") for row in api.get("/nodes/pve/lxc")])
            volumes = {each["volid"] for each in api.get("/nodes/pve/storage/local-lvm/content")}
            assert not [volume for volume in volumes - before if volume not in named], "a volume that nothing names"
        finally:
            api.close()


@pytest.fixture(scope="module")
def rows_of_table() -> list[str]:
    return []


@pytest.fixture(scope="module")
def pen(node: Node) -> Iterator[Pen]:
    made = Pen(node)
    made.paddock("up")
    made.expect_up()
    wait_for(lambda: made.rows() > 10)
    yield made
    made.paddock("down")
    made.node.paddock("forget", "bee", "--name", "bee", "-f", made.path)


@pytest.mark.parametrize(("verb", "step", "event"), POINTS, ids=["-".join(each).replace(" ", "-") for each in POINTS])
def test_a_killed_verb_converges_on_real_containers(
    pen: Pen, rows_of_table: list[str], verb: str, step: str, event: str
) -> None:
    least = pen.prepare(verb)
    api = api_client(pen.node)
    before = {each["volid"] for each in api.get("/nodes/pve/storage/local-lvm/content")}
    api.close()
    kill_at_step(pen.node, step, *pen.words(verb), event=event)
    pen.node.paddock(*pen.words(verb))
    pen.expect_clean(before)
    if verb == "down":
        pen.paddock("up")
    pen.expect_up()
    found = pen.rows()
    assert found >= least
    wait_for(lambda: pen.rows() > found)
    rows_of_table.append(f"{verb:16}{step:18}{event:8}{found:8} rows, none lost")


def test_at_least_thirty_points_were_tried(rows_of_table: list[str], show_table: Callable[[str], None]) -> None:
    show_table("\n".join([f"killed on real containers: {len(rows_of_table)} points, none lost", *rows_of_table]))
    assert {verb for verb, _, _ in POINTS} <= set(VERBS)
    assert len(rows_of_table) == len(POINTS) >= 30
