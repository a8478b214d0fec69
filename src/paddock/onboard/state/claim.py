"""Create the state of an agent, or accept the one that is there; hold it, and delete it."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress

from paddock.onboard.agent import Agent
from paddock.onboard.files import (
    descended,
    entry,
    is_folder,
    is_mounted,
    link,
    link_of,
    locked,
    make_folder,
    mounts,
    names,
    opened,
    remove,
    remove_tree,
    set_aside,
    text,
    within,
)
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import BUSY, Refusal
from paddock.onboard.program.serve import say
from paddock.onboard.state.owners import give, numbers_of
from paddock.onboard.state.path import check_state_path
from paddock.onboard.state.top import (
    expect_identity,
    expect_path_of_root,
    holder,
    is_own,
    is_state,
    own,
    take_top,
    write_identity,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload

_NOT_MOVED = ("lost+found", ".paddock")


def claim_state(agent: Agent, state: str, *, mounted: bool) -> None:
    """Create the state of an agent, or accept its own.

    Only an empty folder becomes a state. A volume that is not mounted would look empty, so a mount is checked first.
    """
    check_state_path(agent, state)
    expect_mounted(state, mounted=mounted)
    expect_path_of_root(state)
    make_folder(os.path.dirname(state))
    make_folder(os.path.dirname(agent.state_link))
    _expect_same_state(agent, state)
    make_folder(state, 0o700)
    take_top(state)
    if not is_own(own(state)) and os.path.lexists(own(state)):
        raise Refusal(
            f"{own(state)} is not a directory that only root can enter. If you restored it from a copy:"
            f" chown -R 0:0 {own(state)} && chmod 700 {own(state)}. Otherwise move it away."
        )
    if is_state(state):
        expect_identity(state, agent.id)
    elif any(name not in _NOT_MOVED for name in names(state)):
        raise Refusal(f"{state} holds files but no mark of Paddock; `paddock adopt {agent.name}` claims them")
    else:
        write_identity(state, agent.id)
    link(state, agent.state_link)


def expect_mounted(state: str, *, mounted: bool) -> None:
    if mounted and not is_mounted(state):
        raise Refusal(f"the state volume is not mounted at {state}")


def _expect_same_state(agent: Agent, state: str) -> None:
    """Refuse another state than the one that the link leads to: the agent would start without its memory.

    A link that leads nowhere means that a person has moved the state.
    """
    known = link_of(agent.state_link)
    if known and known != state and os.path.exists(known):
        raise Refusal(f"the state of {agent.name} is {known}, not {state}")


@frozen
class ClaimForRestore:
    """Create the state of an agent, or accept its own, so that a backup can be unpacked into it."""

    agent: Agent
    mounted: bool

    def perform(self, _: Payload) -> None:
        claim_state(self.agent, self.agent.state, mounted=self.mounted)
        make_folder(f"{self.agent.state}/home", 0o700)


@frozen
class ClaimState:
    """Make files that existed before Paddock the state of an agent. It may be interrupted anywhere, and done again.

    The files move into the agent's home and become its own. The agent may have prepared them, and may still run.
    """

    agent: Agent
    mounted: bool
    user: str
    uid: int
    gid: int
    required: bool = False  # the account must have that uid, or must not exist yet

    def perform(self, _: Payload) -> list[str]:
        state = self.agent.state
        check_state_path(self.agent, state)
        expect_mounted(state, mounted=self.mounted)
        if not os.path.isdir(state):
            raise Refusal(f"there is no {state}")
        expect_path_of_root(state)
        if is_state(state):
            expect_identity(state, self.agent.id)
            return []
        _expect_unused(state)
        if self.required:
            self._expect_account()
        take_top(state)
        with opened(state) as top:
            _move_into_home(top, state)
            uid, gid = numbers_of(self.user, self.uid, self.gid)
            with descended(top, ["home"]) as home:
                changed, left = give(home, uid, gid)
        os.sync()
        write_identity(state, self.agent.id)
        told = [f"{changed} files in {state}/home had another owner and now belong to the agent"] if changed else []
        return told + ([f"{left} files in {state}/home have several hard links and keep their owner"] if left else [])

    def _expect_account(self) -> None:
        """Refuse an account with another uid before anything moves: by then the install would be cut off."""
        found = next((each for each in pwd.getpwall() if each.pw_uid == self.uid), None)
        try:
            there = pwd.getpwnam(self.user)
        except KeyError:
            if found:
                raise Refusal(
                    f"nothing was moved: the uid {self.uid} is that of the account {found.pw_name} here, and the file"
                    f" says {self.user}; write user: {{name: {found.pw_name}, uid: {self.uid}}} to use that account,"
                    " or another uid"
                ) from None
            return
        if there.pw_uid != self.uid:
            keep = (
                f"write user: {{name: {self.user}, uid: {there.pw_uid}, gid: {there.pw_gid}}} to use that account, or "
            )
            if not 1000 <= there.pw_uid <= 60000:
                keep = ""
            raise Refusal(
                f"nothing was moved: the account {self.user} has the uid {there.pw_uid} here, and the file says"
                f" {self.uid}; {keep}rename it: usermod --login old-{self.user} {self.user}"
            )


def _expect_unused(state: str) -> None:
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        opened_files = [f"/proc/{pid}/cwd", *(f"/proc/{pid}/fd/{name}" for name in names(f"/proc/{pid}/fd"))]
        if any(within(link_of(path), state) for path in opened_files):
            name = text(f"/proc/{pid}/comm").strip()
            raise Refusal(f"process {pid} ({name}) has files of {state} open; stop it first", BUSY)


def _move_into_home(top: int, state: str) -> None:
    """Move all entries of a folder into its entry `home`.

    The folder `adopting` collects them, and appears together with `.paddock`: if there is a `.paddock` without it, all
    entries have moved. Nobody but root can rename entries of the top folder any more.
    """
    if not is_own(own(state)):
        for name in (".paddock", ".paddock.new"):
            if entry(name, top) and not is_own(f"{state}/{name}"):
                set_aside(name, top)
        make_folder(f"{state}/.paddock.new/adopting", 0o700)
        os.rename(".paddock.new", ".paddock", src_dir_fd=top, dst_dir_fd=top)
    adopting = f"{own(state)}/adopting"
    if os.path.lexists(adopting):
        if not is_own(adopting):
            raise Refusal(f"Paddock did not create the directory {adopting}")
        with descended(top, [".paddock", "adopting"]) as into:
            for name in os.listdir(top):
                if name not in _NOT_MOVED:
                    os.rename(name, name, src_dir_fd=top, dst_dir_fd=into)
        os.rename(adopting, "home", dst_dir_fd=top)
    with suppress(FileExistsError):
        os.mkdir("home", 0o700, dir_fd=top)
    if not is_folder(entry("home", top)):
        raise Refusal(f"{state}/home is not a directory")


@frozen
class DeleteState:
    """Delete the state of an agent. A state that is held, or in which something is mounted, stays.

    It is renamed first, in one step: from then on it is no state. After an interruption the next run deletes the
    renamed folder. The link is deleted last, because it names the place of that folder.
    """

    agent: Agent

    def perform(self, _: Payload) -> None:
        state, above = self.agent.state, os.path.dirname(self.agent.state)
        forgotten = f"{above}/.paddock-forgotten-{self.agent.id}"
        expect_path_of_root(state)
        _delete(forgotten)
        if os.path.lexists(state):
            if not is_state(state):
                raise Refusal(f"{state} is not a state of Paddock")
            expect_identity(state, self.agent.id)
            _expect_nothing_mounted(state)
            with lease(state):
                os.rename(state, forgotten)
                with opened(above) as folder:
                    os.fsync(folder)
                _delete(forgotten)
        remove(self.agent.state_link)


def _delete(folder: str) -> None:
    if os.path.lexists(folder):
        _expect_nothing_mounted(folder)
        remove_tree(folder)


def _expect_nothing_mounted(folder: str) -> None:
    for mounted in mounts():
        if within(mounted, folder):
            raise Refusal(f"{mounted} is a mount point, and Paddock deletes nothing through a mount: umount it first")


def lease(state: str, wait: float = 0):  # type: ignore[no-untyped-def]
    """Hold the lease on a state, so that no agent starts on it meanwhile."""
    return locked(f"{own(state)}/lease", f"the state is held by {holder(state)}", wait=wait, create=True)


@frozen
class HoldLease:
    """Hold the lease on the state of a stopped agent until the input ends."""

    state: str

    def perform(self, payload: Payload) -> None:
        with locked(f"{own(self.state)}/lease", f"the state is in use: {holder(self.state)}", create=True):
            say("held")
            with suppress(Refusal):
                payload.read()
