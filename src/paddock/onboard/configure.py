"""Receive a bundle, and make it the current one.

ROOT/before has what the agent was last verified with, from when that is replaced until the agent was verified again:
the id of the bundle, and the secrets. Nothing else on the machine knows the secrets from before. ROOT/pending exists
from the first change until the agent was restarted. Everything here may be interrupted anywhere, and be done again.
"""

from __future__ import annotations

import os
import secrets as randomness
import shutil
from contextlib import contextmanager

from paddock.onboard.agent import Agent, current_bundle, in_words, settings
from paddock.onboard.code.trees import keep_version
from paddock.onboard.files import (
    lines,
    link,
    link_of,
    make_folder,
    names,
    opened,
    remove,
    remove_empty,
    remove_tree,
    same,
    text,
)
from paddock.onboard.files import write as write_file
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import BUSY, FORMER, SET_ASIDE, Refusal
from paddock.onboard.state.child import libc
from paddock.onboard.state.claim import claim_state
from paddock.onboard.state.home import Home
from paddock.onboard.state.top import expect_identity, identity_of, is_own, own
from paddock.onboard.state.version import expect_saved_state, record_version, version_of
from paddock.onboard.systemd.account import have_account

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


_PEOPLE = "/root/.ssh/authorized_keys2"


@frozen
class File:
    content: str
    mode: int


@frozen
class Sent:
    """A bundle with the secrets of its agent."""

    id: str
    files: dict[str, File]
    secrets: str  # an environment file
    secret_files: dict[str, str]
    version: str = ""  # of the code; empty if it has none
    distribution: str = ""  # the package that brings the code
    whole: bool = False  # the state must not be that of a copy, which could not act yet


class Received:
    """A bundle that has arrived on the machine, and is not the current one yet."""

    def __init__(self, agent: Agent, bundle_id: str, version: str = "") -> None:
        self.agent = agent
        self.id = bundle_id
        self.version = version
        self.root = agent.root
        self.folder = f"{agent.root}/incoming"
        self.bundle = f"{self.folder}/bundle"
        self.settings = settings(self.bundle)
        self.state = self.settings["STATE"]
        self.switched = current_bundle(agent.root) != bundle_id  # it is another than before

    def prepare(self) -> list[str]:
        """Create the account and the state. Return what a person should know."""
        if self.agent.manager and self.settings["OWNER"]:
            have_account(self.agent, self.settings, f"{self.bundle}/sysusers.conf")
        claim_state(self.agent, self.state, mounted=bool(self.settings["MOUNTED"]))
        told = Home(self.root, self.bundle, f"{self.folder}/secret-files").write()
        if self.settings["TREE"]:
            keep_version(self.agent, self.settings["TREE"])
        return told

    def make_current(self) -> bool:
        """Make the bundle and the secrets the current ones. Return whether the agent has to be restarted."""
        root, before = self.root, current_bundle(self.root)
        new_secrets = not self._has_the_secrets(root)
        generated, given = _values(f"{root}/generated.env"), _values(f"{self.folder}/secrets.env")
        # A key that the file sets is not generated.
        wanted = {name for name in self.settings["GENERATED"].split() if name not in given}
        kept = {name: value for name, value in generated.items() if name not in given}
        missing = sorted(wanted - kept.keys())
        changed = os.path.exists(f"{root}/pending") or new_secrets or before != self.id or bool(missing)
        if changed:
            write_file(f"{root}/pending", "")
        if missing or kept != generated or not os.path.exists(f"{root}/generated.env"):
            kept |= {name: randomness.token_hex(32) for name in missing}
            write_file(f"{root}/generated.env", "".join(f"{name}={value}\n" for name, value in kept.items()))
        if before and text(f"{root}/answered").strip() == before and (before != self.id or new_secrets):
            _keep_verified(self.root, before)
        remove(f"{root}/answered")  # the new bundle is not verified yet
        record_version(self.state, self.version)  # of a state that did not exist before
        self._switch(before)
        return changed

    def _has_the_secrets(self, root: str) -> bool:
        return all(same(f"{self.folder}/{name}", f"{root}/{name}") for name in ("secrets.env", "secret-files"))

    def _switch(self, before: str) -> None:
        root = self.root
        with opened(self.folder) as folder:
            libc().syncfs(folder)  # a bundle with a name is complete, also after a loss of power
        remove_tree(f"{root}/secret-files")
        os.rename(f"{self.folder}/secret-files", f"{root}/secret-files")
        os.rename(f"{self.folder}/secrets.env", f"{root}/secrets.env")
        if not os.path.isdir(f"{root}/{self.id}"):
            os.rename(self.bundle, f"{root}/{self.id}")
        remove_tree(self.folder)
        if before != self.id:
            if before:
                link(before, f"{root}/previous")
            link(self.id, f"{root}/current")
        self._let_people_in()
        needed = {self.id, link_of(f"{root}/previous"), text(f"{root}/before/bundle").strip()}
        for name in names(root):
            if name not in {*needed, "current", "previous"} and os.path.exists(f"{root}/{name}/bundle.env"):
                # Its parts do not go one by one under this name: without bundle.env they would stay.
                os.rename(f"{root}/{name}", self.folder)
                remove_tree(self.folder)

    def _let_people_in(self) -> None:
        """Let people log in to a machine that Paddock made. sshd reads this second file of root too.

        It is a link into the current bundle, so that a key that was removed from the file no longer works.
        """
        people = f"{self.root}/current/people"
        if os.path.exists(people):
            if os.path.exists(_PEOPLE) and not os.path.islink(_PEOPLE):
                raise Refusal(
                    f"Paddock did not create {_PEOPLE}; move its keys to proxmox.ssh.people and remove the file"
                )
            make_folder(os.path.dirname(_PEOPLE), 0o700)
            link(people, _PEOPLE)
        elif link_of(_PEOPLE) == people:
            remove(_PEOPLE)

    def discard(self) -> None:
        remove_tree(self.folder)
        remove_empty(self.root)

    def done(self) -> None:
        """Record that the agent runs with the current bundle."""
        remove(f"{self.root}/pending")


def _keep_verified(root: str, bundle_id: str) -> None:
    """Keep what the agent is verified with. What is not verified is not kept."""
    kept = f"{root}/before"
    remove_tree(f"{kept}.new")
    make_folder(f"{kept}.new/secret-files", 0o700)
    _copy(f"{root}/secrets.env", f"{kept}.new/secrets.env")
    _copy(f"{root}/secret-files", f"{kept}.new/secret-files")
    write_file(f"{kept}.new/bundle", f"{bundle_id}\n")
    remove_tree(kept)
    os.rename(f"{kept}.new", kept)


def _values(environment: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in lines(environment))


def _copy(source: str, target: str) -> None:
    """Copy a file or a folder of root's, with modes and times."""
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    elif os.path.exists(source):
        shutil.copy2(source, target)


@contextmanager
def received(agent: Agent, sent: Sent) -> Iterator[Received]:
    """Write a bundle beside the current one, and lock the agent."""
    make_folder(agent.root)
    with agent.lock():
        folder = _emptied(agent)
        for path, file in sent.files.items():
            make_folder(os.path.dirname(f"{folder}/bundle/{path}"))
            _write(f"{folder}/bundle/{path}", file.content, file.mode)
        _write(f"{folder}/secrets.env", sent.secrets, 0o400)
        make_folder(f"{folder}/secret-files", 0o700)
        for name, content in sent.secret_files.items():
            _write(f"{folder}/secret-files/{name}", content, 0o400)
        found = Received(agent, sent.id, sent.version)
        try:
            _expect_whole(found, sent)
            _expect_no_former(found)
            expect_saved_state(found.state, agent.root, sent.version, sent.distribution)
        except Refusal:
            found.discard()
            raise
        yield found


@contextmanager
def received_verified(agent: Agent, distribution: str) -> Iterator[Received]:
    """Take what the agent was last verified with. Its code may run only on a state that no other has touched."""
    if not os.path.isdir(agent.root):
        raise Refusal("the agent has no configuration", BUSY)
    with agent.lock():
        folder = _emptied(agent)
        before = f"{agent.root}/before"
        if verified := text(f"{agent.root}/answered").strip():
            _keep_verified(agent.root, verified)  # for the next run, if this one is interrupted
        bundle_id = text(f"{before}/bundle").strip()
        if not bundle_id or not os.path.exists(f"{agent.root}/{bundle_id}/bundle.env"):
            raise Refusal("no configuration is left that the agent was verified with", BUSY)
        _copy(f"{agent.root}/{bundle_id}", f"{folder}/bundle")
        for name in ("secrets.env", "secret-files"):
            _copy(f"{before}/{name}", f"{folder}/{name}")
        found = Received(agent, bundle_id)
        expect_identity(found.state, agent.id)
        ran, known = text(f"{own(found.state)}/version").strip(), version_of(found.settings, distribution)
        if ran and known and ran.removesuffix(" from a package") != known:
            raise Refusal(f"the state is one of version {ran}, and the configuration from before is for {known}", BUSY)
        yield found


def _emptied(agent: Agent) -> str:
    folder = f"{agent.root}/incoming"
    remove_tree(folder)
    make_folder(folder, 0o700)
    return folder


def _write(path: str, content: str, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content.encode())
        os.fchmod(file.fileno(), mode)


def _expect_whole(found: Received, sent: Sent) -> None:
    if sent.whole and os.path.isdir(f"{own(found.state)}/set-aside"):
        raise Refusal("something of the state is set aside", SET_ASIDE)


def _expect_no_former(found: Received) -> None:
    """Refuse a machine with the agent under a former id: the run observes again, and renames the agent first.

    A machine that was stopped when the run was planned, or a state from another machine, can have one.
    """
    agent = found.agent
    for former in agent.formers:
        of_former = is_own(own(found.state)) and identity_of(found.state) == former
        if of_former or os.path.islink(f"{agent.root_of(former)}/current"):
            raise Refusal(f"this machine has {in_words(former)}, which becomes {in_words(agent.id)}", FORMER)
