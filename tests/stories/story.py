"""What an agent lives through: it learns, loses its machine and then its state, and still knows what it learned."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from live.node import Node
from paddock.base.process import run
from paddock.demo import FACT, QUESTION

UP, UNCHANGED = "hermes: up and working\n", "hermes: nothing to do, and healthy\n"
MEMORY = "home/.hermes/memories/MEMORY.md"  # below the top of the state


@dataclass(frozen=True)
class Agent:
    """An agent of one shape: its file, what its machine can be told from another by, and how its state is read."""

    node: Node
    file: str
    machine: Callable[[Agent], str]
    memory: Callable[[Agent], str]

    def paddock(self, *words: str) -> str:
        return self.node.paddock(*words, "-f", self.file).stdout

    def ask(self, prompt: str) -> str:
        return self.paddock("ask", "hermes", prompt).strip()

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.paddock("status", "--json"))[0])

    def forget(self) -> None:
        self.paddock("forget", "hermes", "--name", "hermes")


def written(node: Node, tree: dict[str, Any], name: str) -> str:
    """Write the file of an agent, which has a folder for backups."""
    tree["agents"]["hermes"]["backup"] = {"to": f"./backups-of-{name}"}
    return str(node.write(f"{name}.yaml", tree))


def tell(agent: Agent) -> None:
    """Live through all of it, and leave nothing of the agent."""
    learn(agent)
    recreate(agent)
    restore(agent)


def learn(agent: Agent) -> None:
    """Create the agent and teach it a fact."""
    assert agent.paddock("up") == UP
    agent.ask(f"Remember: {FACT}")


def recreate(agent: Agent) -> None:
    """Recreate the machine. A second `up` has nothing to do."""
    first = agent.machine(agent)
    assert agent.paddock("cycle") == UP
    assert agent.machine(agent) != first
    assert agent.ask(QUESTION) == FACT
    assert agent.paddock("up") == UNCHANGED


def restore(agent: Agent) -> None:
    """Delete the state and restore it from a backup. Then remove the agent, find the fact in its state, delete both."""
    agent.paddock("backup", "hermes")
    agent.paddock("down")
    agent.forget()
    assert FACT not in agent.memory(agent)
    assert "restored from backup" in agent.paddock("restore", "hermes", "--yes")
    assert agent.ask(QUESTION) == FACT
    agent.paddock("down")
    assert FACT in agent.memory(agent)
    agent.forget()


def on_volumes(agent: Agent) -> str:
    """Read the memory from the volumes of a node, none of which is mounted now."""
    images = (agent.node.stage.folder / "sandbox/volumes/pve").rglob("vm-*.img")
    return "".join(run(["debugfs", "-R", f"cat {MEMORY}", str(image)]).out for image in images)
