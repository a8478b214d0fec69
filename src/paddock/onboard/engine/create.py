"""Create the container of an agent, keep and put back the one before it, and remove them."""

from __future__ import annotations

import os
import re

from paddock.onboard.agent import Agent
from paddock.onboard.configure import Received, Sent, received
from paddock.onboard.engine.containers import ENGINES, answers, drop, inspect, own
from paddock.onboard.engine.images import (
    ARCHIVED,
    drop_images,
    drop_kept_images,
    drop_layer,
    entrypoint,
    named,
    with_python,
)
from paddock.onboard.files import make_folder, text
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.programs import environment, found, must, run
from paddock.onboard.program.refusal import BUSY, Refusal
from paddock.onboard.systemd.manager import Manager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.onboard.program.serve import Payload

_IDENTITY = re.compile(r"--label 'paddock\.identity=([^']*)'")


# The container that a new one replaces is kept as NAME.before until the agent was verified with the new one: it has the
# software that was installed in it. No id has a dot.


def _keep_former(engine: str, name: str, agent: str) -> None:
    if own(engine, f"{name}.before", agent):
        drop(engine, name, agent)
    elif own(engine, name, agent):
        must([engine, "rename", name, f"{name}.before"])


def _put_back(engine: str, name: str, agent: str) -> None:
    if own(engine, f"{name}.before", agent):
        drop(engine, name, agent)
        must([engine, "rename", f"{name}.before", name])


def put_back_containers(agent: Agent, bundle: Mapping[str, str]) -> None:
    """Give an agent the container again that it was last verified with.

    The configuration may have been moved to another engine, or to none. An engine that does not run has no container of
    the new configuration.
    """
    name, manager = f"paddock-{agent.id}", Manager(agent.manager)
    for engine in ENGINES:
        if not found(engine) or not run([engine, "ps", "--quiet"]).ok:
            continue
        if engine == bundle.get("ENGINE"):
            if own(engine, f"{name}.before", agent.id):
                manager.stop_container(agent.root)
            _put_back(engine, name, agent.id)
        elif own(engine, name, agent.id):
            manager.stop_container(agent.root)
            drop(engine, name, agent.id)


@frozen
class Create:
    """Create the container of an agent as a bundle describes it.

    The old one, with its own layer, is stopped only when the new one exists, and kept until the agent was verified with
    the new one. An agent that goes back gets it again.
    """

    agent: Agent
    sent: Sent
    replaces: bool  # a container may be replaced

    def perform(self, _: Payload) -> list[str]:
        with received(self.agent, self.sent) as found:
            try:
                return self._created(found)
            finally:
                found.discard()

    def _created(self, found: Received) -> list[str]:
        agent, bundle = self.agent, found.settings
        engine, name = bundle["ENGINE"], bundle["CONTAINER"]
        known = inspect(engine, name, f"{name}.before", f"{name}.new")
        if name in known and not self.replaces:
            raise Refusal(f"there is a container {name} already", BUSY)
        told = found.prepare()
        make_folder(os.path.dirname(agent.store))  # the container mounts it, even if there is no code yet
        drop(engine, f"{name}.new", agent.id)  # of an interrupted run
        manager = Manager(agent.manager)
        wanted = _IDENTITY.search(text(f"{found.bundle}/create"))
        identity = wanted[1] if wanted else ""
        former, new = known.get(f"{name}.before"), known.get(f"{name}.new")
        # Without the container itself, an interrupted run was about to give its name to .new, or to .before.
        replaced = known.get(name) or new
        if former and former.identity == identity and (replaced is None or replaced.identity != identity):
            manager.stop_container(agent.root)
            _put_back(engine, name, agent.id)
            return told
        _create(found, f"{name}.new")
        manager.stop_container(agent.root)
        if own(engine, name, agent.id, *agent.formers):  # someone may have started it without its unit
            must([engine, "stop", "--time", bundle["STOP_SECONDS"], name])
        for other in agent.formers:  # its configuration is gone, so there is no way back to it
            if (old := inspect(engine, name).get(name)) and old.labels.get("paddock.agent") == other:
                drop(engine, name, other)
        _keep_former(engine, name, agent.id)
        must([engine, "rename", f"{name}.new", name])
        return told


def _create(found: Received, name: str) -> None:
    bundle = found.settings
    engine = bundle["ENGINE"]
    image = with_python(engine, bundle["IMAGE"]) if bundle["TREE"] else bundle["IMAGE"]
    argv = ["sh", f"{found.bundle}/create", name, image, *entrypoint(engine, image)]
    done = run(argv, env=environment(HOME=os.environ.get("HOME", "/root")))
    if not done.ok:
        raise Refusal(done.err.strip() or f"the container {name} cannot be created", done.code)


def remove_containers(agent: Agent, engine: str) -> None:
    """Remove all containers of an agent in an engine, and the images that only it used."""
    if found(engine):
        answers(engine)
        for each in ("", ".new", ".before"):
            drop(engine, f"paddock-{agent.id}{each}", agent.id)
        drop_layer(engine, agent.id)
        drop_kept_images(engine, agent.root)


@frozen
class LeaveEngine:
    """Remove the container of an agent and its images from an engine that it no longer uses."""

    agent: Agent
    engine: str

    def perform(self, _: Payload) -> None:
        if self.engine not in ENGINES:
            raise Refusal(f"there is no engine {self.engine}")
        for agent in (self.agent.id, *self.agent.formers):
            drop(self.engine, f"paddock-{agent}", agent)
            drop(self.engine, f"paddock-{agent}.before", agent)
            drop_layer(self.engine, agent)
        drop_images(self.engine, self.agent.root, named(self.engine, ARCHIVED))
        drop_kept_images(self.engine, self.agent.root)
