"""Trees of code: they are in a store, named by their hash, and shared by agents.

Beside the store each agent has a folder with links to the trees that it needs: `current`, `previous`, the tree before
that, and the tree that it was last verified with. A tree without a link is deleted with the next change.
"""

from __future__ import annotations

import os

from paddock.onboard.agent import Agent, settings
from paddock.onboard.files import link, link_of, locked, make_folder, names, remove, remove_empty, remove_tree, text
from paddock.onboard.program.refusal import BUSY, Refusal


def keep_version(agent: Agent, tree: str) -> None:
    """Make a tree the agent's current one, and forget those that it does not need any more."""
    if not os.path.exists(f"{agent.store}/{tree}/manifest"):
        raise Refusal(f"another run has removed the code {tree}; run `paddock up` again", BUSY)
    folder = agent.versions
    make_folder(folder)
    link(f"../{os.path.basename(agent.store)}/{tree}", f"{folder}/{tree}")
    before = link_of(f"{folder}/current")
    if before != tree:
        if before:
            link(before, f"{folder}/previous")
        link(tree, f"{folder}/current")
    verified = text(f"{agent.root}/before/bundle").strip()
    kept = {"current", "previous", tree, link_of(f"{folder}/previous")}
    kept.add(settings(f"{agent.root}/{verified}").get("TREE", "") if verified else "")
    left = [name for name in names(folder) if name not in kept]
    for name in left:
        remove(f"{folder}/{name}")
    if left or _unneeded(agent.store):
        prune_store(agent.store)


def drop_versions(agent: Agent) -> None:
    """Remove the links of an agent, and the trees that no other agent needs."""
    expect_no_state(agent.versions)
    remove_tree(agent.versions)
    prune_store(agent.store)


def prune_store(store: str) -> None:
    """Delete trees without a link, unless a state is in them.

    A tree that is about to be installed has its link already, and holds this lock.
    """
    if os.path.isdir(store):
        with locked(os.path.dirname(store), "", wait=None):
            for name in _unneeded(store):
                if not _state_of(f"{store}/{name}"):
                    remove_tree(f"{store}/{name}")
        remove_empty(store)


def _unneeded(store: str) -> list[str]:
    above = os.path.dirname(store)
    linked = {link for agent in names(above) for link in names(f"{above}/{agent}") if f"{above}/{agent}" != store}
    return [name for name in names(store) if name not in linked]


def expect_no_state(*folders: str) -> None:
    """Refuse to delete folders that hold a state, or are in one. To be called right before they are deleted."""
    for folder in folders:
        if held := _state_of(folder):
            raise Refusal(
                f"{held} holds the state of an agent, and all of {folder} was about to be deleted: stop the agent, move"
                " the state elsewhere and write that as state.path"
            )


def _state_of(folder: str) -> str:
    """Return the state that is in a folder, or that the folder is in."""
    held = next((top for top, inside, _ in os.walk(folder) if ".paddock" in inside), "")
    above = folder
    while not held and above != "/":
        held = above if os.path.exists(f"{above}/.paddock/identity") else ""
        above = os.path.dirname(above)
    return held
