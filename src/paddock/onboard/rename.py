"""Give an agent another id, and keep its state, secrets, code and container. No file of the agent moves.

The steps are in an order that allows an interruption anywhere. The configuration keeps its old place until the last
step: as long as it is there, the next run finishes the rename. Once the identity is rewritten, no unit with the former
id can get the lease, and Paddock 0.1 refuses the state.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

from paddock.onboard.agent import Agent, in_words
from paddock.onboard.code.trees import expect_no_state
from paddock.onboard.engine.containers import answers, rename_containers
from paddock.onboard.files import link, link_of, locked, make_folder, names, remove, remove_empty, remove_tree, write
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.programs import found
from paddock.onboard.program.refusal import Refusal
from paddock.onboard.state.claim import expect_mounted, lease
from paddock.onboard.state.top import expect_identity, expect_path_of_root, identity_of, is_state, write_identity
from paddock.onboard.systemd.manager import Manager, engine_of, halt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload


@frozen
class Rename:
    """Stop the agent with a former id, and make its parts and its state this agent's.

    Its units are removed: applying a bundle creates them again. What runs in a terminal keeps its lease, and the rename
    is refused.
    """

    agent: Agent
    former: str
    mounted: bool

    def perform(self, _: Payload) -> None:
        agent, old_root = self.agent, self.agent.root_of(self.former)
        with ExitStack() as held:
            if os.path.isdir(old_root):
                held.enter_context(agent.lock(old_root))
            self._expect_state_of_former(old_root)  # the proof that it is, before anything stops
            if agent.manager:
                self._stop(old_root)
            held.enter_context(lease(agent.state, wait=10))
            make_folder(os.path.dirname(agent.state_link))
            link(agent.state, agent.state_link)
            if os.path.islink(agent.link_of(self.former)):
                remove(agent.link_of(self.former))
            if identity_of(agent.state) != agent.id:
                write_identity(agent.state, agent.id)
            if agent.manager:
                self._drop_units(old_root)
            self._rename_code()
            if agent.manager:
                rename_containers(agent, self.former)
            self._rename_configuration(old_root)

    def _expect_state_of_former(self, old_root: str) -> None:
        agent, state = self.agent, self.agent.state
        if os.path.islink(agent.current) and os.path.islink(f"{old_root}/current"):
            both = f"{in_words(self.former)} and {in_words(agent.id)}"
            raise Refusal(f"this machine has both {both}; remove one of them")
        expect_mounted(state, mounted=self.mounted)
        expect_path_of_root(state)
        if not is_state(state):
            raise Refusal(f"there is no state of {in_words(self.former)} at {state}")
        if identity_of(state) != agent.id:  # an interrupted run may have written it already
            expect_identity(state, self.former)
        for each in (agent.state_link, agent.link_of(self.former)):
            there = link_of(each)
            if there and os.path.exists(each) and there != state:
                raise Refusal(f"{each} leads to {there}, and the state is {state}")

    def _stop(self, old_root: str) -> None:
        engine = engine_of(old_root)
        if engine and found(engine):
            answers(engine)  # an engine that does not run hides the container, which would keep its name
        manager = Manager(self.agent.manager)
        for unit in manager.units_of(old_root):
            manager.must("stop", unit)
        halt(old_root, self.former, "container")

    def _drop_units(self, old_root: str) -> None:
        manager = Manager(self.agent.manager)
        for unit in manager.linked(old_root):
            manager.drop(unit)
        manager.drop_table(self.former)
        manager.run("daemon-reload")
        manager.drop_programs(old_root)
        people = "/root/.ssh/authorized_keys2"
        if link_of(people) == f"{old_root}/current/people":
            link(f"{self.agent.current}/people", people)

    def _rename_code(self) -> None:
        top, new = os.path.dirname(self.agent.store), self.agent.versions
        old = f"{top}/{self.former}"
        if os.path.isdir(old):
            # The lock keeps other runs from pruning a tree whose link is moving.
            with locked(top, "", wait=None):
                make_folder(new)
                for name in names(old):
                    if os.path.islink(f"{old}/{name}"):
                        os.rename(f"{old}/{name}", f"{new}/{name}")
                os.rmdir(old)

    def _rename_configuration(self, old_root: str) -> None:
        root = self.agent.root
        if not os.path.islink(f"{old_root}/current") or os.path.islink(f"{root}/current"):
            return
        write(f"{old_root}/pending", "")
        for name in ("answered", "before"):  # what has the former id cannot run any more
            remove_tree(f"{old_root}/{name}")
        if os.path.isdir(root):  # of a run that was interrupted before its first change
            expect_no_state(root)
            remove_tree(root)
        make_folder(os.path.dirname(root))
        os.rename(old_root, root)
        if self.agent.in_account:
            remove_empty(os.path.dirname(old_root))  # a state may be in it
