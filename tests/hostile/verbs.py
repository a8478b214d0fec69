"""Run verbs for an agent on the simulated node, and take privileges from its token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddock.base.errors import PaddockError
from paddock.core.converge import forget, plan_forget
from places.node import WIDE, Node, PaperAgent

USER = "paddock@pve"


def wide(node: Node, **keys: Any) -> PaperAgent:
    """An agent without pools, whose token has privileges on all containers."""
    return node.agent(token=WIDE, pools="none", **keys)


def end_of(verb: Callable[[PaperAgent], str], agent: PaperAgent) -> tuple[str, str]:
    """Run a verb and return its last message, and the hint if it was an error."""
    try:
        return verb(agent), ""
    except PaddockError as end:
        return end.message, end.hint or ""


def forgotten(agent: PaperAgent) -> str:
    seen, plan = plan_forget(agent)
    return forget(agent, plan, seen)


def take_away(node: Node, *privileges: str) -> None:
    """Remove privileges from the token's user on all paths."""
    for role in ("PaddockGuests", "PaddockStorage", "PaddockNetwork"):
        node.world.access.roles[role] -= set(privileges)


def narrow(node: Node, path: str, *without: str) -> None:
    """Remove privileges from the token's user on one path, with a role there that overrides the inherited one."""
    left = node.world.access.roles["PaddockGuests"] - set(without)
    node.world.access.roles["Narrow"] = left
    node.root("pveum", "acl", "modify", path, "--users", USER, "--roles", "Narrow")
