"""Link the units of a bundle, start or restart those that it changes, and remove them."""

from __future__ import annotations

import os
from contextlib import nullcontext

from paddock.onboard.agent import Agent
from paddock.onboard.code.trees import drop_versions, expect_no_state
from paddock.onboard.configure import Received
from paddock.onboard.engine.create import remove_containers
from paddock.onboard.engine.images import dropping_unnamed
from paddock.onboard.files import (
    is_held,
    lines,
    link,
    link_of,
    make_folder,
    remove,
    remove_empty,
    remove_tree,
    text,
    write,
)
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.programs import found as found_program
from paddock.onboard.program.refusal import BUSY, FAILED, Refusal
from paddock.onboard.state.top import holder, own
from paddock.onboard.systemd.account import close_account_of
from paddock.onboard.systemd.manager import Manager, engine_of, halt, is_template, wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.onboard.program.serve import Payload

# Exit codes of a unit that systemd could not set up: users, capabilities, namespaces, new privileges, system calls,
# personality.
_NOT_CONFINED = ("217", "218", "226", "227", "228", "230", "232")
# A fifth of the memory is left to the host. Where units compete, the agent's come second.
_LIMITS = "[Service]\nMemoryMax=80%\nTasksMax=4096\nCPUWeight=50\nIOWeight=50\n"


def switch_units(found: Received) -> list[str]:
    """Make a received bundle the current one, and bring its units up. Return what a person should know."""
    return _Units(found).switch()


class _Units:
    """The units of one agent, which get another bundle."""

    def __init__(self, found: Received) -> None:
        self.found = found
        self.root = found.root
        self.manager = Manager(found.agent.manager)
        self.all = wanted(found.settings)
        self.templates = found.settings.get("ENTER", "").split()
        self.lease = self.all[0]
        self.processes = found.settings["UNITS"].split()
        self.programs = found.settings.get("PROGRAMS", "").split()
        self.linked = self.manager.linked(self.root)
        self.stale = found.switched  # systemd has not read the units as they are

    def switch(self) -> list[str]:
        self._check_programs()
        told = self.found.prepare()
        self._stop_other_container()
        changed = self.found.make_current()
        self._link_programs()
        self._link_units()
        if not self._bring_up(changed=changed):
            if not self._refused_confinement():
                raise self._gave_up()
            told += self._relax()
            self._link_drop_in("relaxed")
            self.manager.run("daemon-reload")
            if not self._bring_up(changed=changed):
                raise self._gave_up()
        return told

    def _check_programs(self) -> None:
        for name in self.programs:
            path = f"{self.manager.programs}/{name}"
            if os.path.lexists(path) and link_of(path) != f"{self.root}/current/programs/{name}":
                raise Refusal(f"{path} exists on the machine and does not belong to this agent")

    def _link_programs(self) -> None:
        """Offer the agent's commands to all users of the machine. Entries of others stay untouched."""
        if any(link_of(f"{self.manager.programs}/{name}") == "" for name in self.programs) or not self.programs:
            self.manager.drop_programs(self.root)
        if self.programs:
            make_folder(self.manager.programs)
        for name in self.programs:
            link(f"{self.root}/current/programs/{name}", f"{self.manager.programs}/{name}")

    def _stop_other_container(self) -> None:
        """Stop the container in an engine that the agent leaves: two containers would write to one state.

        The old bundle stops it. The new one would look for it in another engine, or in none.
        """
        if engine_of(self.root) != self.found.settings.get("ENGINE", "") and engine_of(self.root):
            self.manager.stop_container(self.root)
            halt(self.root, self.found.agent.name, "previous container")

    def _link_units(self) -> None:
        for unit in set(self.linked) - {*self.all, *self.templates}:
            if not is_template(unit):
                self.manager.must("stop", unit)
            self.manager.drop(unit)
            self.stale = True
        if not self.found.settings.get("EGRESS"):
            self.manager.drop_table(self.found.agent.id)  # without its unit the agent has stopped too
        folder = self.manager.units
        make_folder(f"{folder}/{self.manager.target}.wants")
        for unit in (*self.all, *self.templates):
            self._link(f"{self.root}/current/units/{unit}", f"{folder}/{unit}")
        self._link(f"{self.root}/current/units/{self.lease}", f"{folder}/{self.manager.target}.wants/{self.lease}")
        self._link_drop_in("relaxed")
        self._limit()
        if self.stale and (self.linked or not self._are_loaded()):
            self.manager.must("daemon-reload")

    def _link(self, target: str, path: str) -> None:
        if link_of(path) != target:
            link(target, path)
            self.stale = True

    def _are_loaded(self) -> bool:
        """Whether systemd has read new units by itself: a reload takes a tenth of a second and more.

        It does not notice that a link leads to another bundle.
        """
        shown = self.manager.shown(self.all, "LoadState", "NeedDaemonReload")
        return all(each == {"LoadState": "loaded", "NeedDaemonReload": "no"} for each in shown.values())

    def _limit(self) -> None:
        """Limit what the units use of a host, which others use too. A machine or a container has limits of its own."""
        limits = f"{self.root}/limits.conf"
        if self.found.settings["MOUNTED"] or self.found.settings.get("ENGINE"):
            remove(limits)
            return
        content = _LIMITS + text(f"{self.root}/current/limits")  # the last line of a name counts
        if text(limits) != content:
            write(limits, content, 0o644)
            self.stale = True
        self._link_drop_in("limits", [*self.processes, *self.templates])

    def _link_drop_in(self, name: str, units: list[str] | None = None) -> None:
        if os.path.exists(f"{self.root}/{name}.conf"):
            for unit in [*self.all, *self.templates] if units is None else units:
                make_folder(f"{self.manager.units}/{unit}.d")
                self._link(f"{self.root}/{name}.conf", f"{self.manager.units}/{unit}.d/paddock-{name}.conf")

    def _bring_up(self, *, changed: bool) -> bool:
        """Start the units, or restart the agent's. The lease is never restarted: that would release the state."""
        shown = self.manager.shown(self.all, "ActiveState", "NRestarts", "NFileDescriptorStore")
        active = {unit for unit, each in shown.items() if each["ActiveState"] == "active"}
        if not changed and active == set(self.all):
            return True
        if any(each["ActiveState"] == "failed" or each["NRestarts"] not in ("", "0") for each in shown.values()):
            # The restarts of the old bundle do not count for the new one.
            self.manager.run("reset-failed", *self.all[1:])
        running = active & set(self.processes)
        # An earlier Paddock started the lease: then systemd does not keep the lock when its process dies. It is
        # restarted once, while the agent is stopped for a restart anyway.
        if changed and self.lease in active and shown[self.lease]["NFileDescriptorStore"] == "0":
            if not self.manager.run("restart", self.lease).ok:
                return False
            running = set()
        if not self.manager.run("start", self.lease).ok:
            return False
        # The lease has started the units that did not run. `start` waits for them.
        verb = "restart" if changed and running else "start"
        return self.manager.run(verb, *self.all[1:]).ok

    def _gave_up(self) -> Refusal:
        shown = self.manager.shown([self.lease], "ActiveState")
        if shown[self.lease]["ActiveState"] != "active":
            told = [line for line in self.manager.journal(self.lease, 20) if line.startswith("paddock: ")]
            return Refusal(told[-1] if told else f"{self.lease} did not start", BUSY)
        return Refusal("\n".join(line for unit in self.all[1:] for line in self.manager.journal(unit, 10)), FAILED)

    # Confinement that the machine does not support

    def _refused_confinement(self) -> bool:
        shown = self.manager.shown(self.all, "ExecMainStatus")
        return any(each["ExecMainStatus"] in _NOT_CONFINED for each in shown.values())

    def _relax(self) -> list[str]:
        """Write a drop-in for all units that resets the directives which the machine does not support, and name each.

        It stays as long as the agent is installed: the lease is not restarted with a new bundle, and must start at the
        next boot.
        """
        self.manager.run("stop", *self.all)
        supported, dropped, told = "", "[Service]\n", []
        for line in lines(f"{self.root}/current/confinement"):
            directive, off, remounts = [*line.split("\t"), ""][:3]
            if self._supports(f"{supported}{directive}\n", remounts=remounts == "remounts"):
                supported += f"{directive}\n"
            else:
                dropped += f"{off}\n"
                told.append(f"this machine does not support {directive}; Paddock drops that line")
        remove(f"{self.manager.passing_units}/paddock-trial.service")
        write(f"{self.root}/relaxed.conf", dropped, 0o644)
        return told

    def _supports(self, directives: str, *, remounts: bool) -> bool:
        # Programs by their paths: not every systemd looks for them where this program does.
        trial = ":"
        if remounts:
            trial = f"[ {link_of('/proc/self/ns/mnt')} != $$({found_program('readlink')} /proc/self/ns/mnt) ]"
        make_folder(self.manager.passing_units)
        unit = f'[Service]\nType=oneshot\nExecStart={found_program("sh")} -c "{trial}"\n{directives}'
        write(f"{self.manager.passing_units}/paddock-trial.service", unit, 0o644)
        self.manager.run("daemon-reload")
        return self.manager.run("start", "paddock-trial.service").ok


@frozen
class Stop:
    """Stop the agent's units, the lease last, and keep everything."""

    agent: Agent

    def perform(self, _: Payload) -> None:
        if not self.agent.manager:
            _expect_stopped(self.agent)
        elif os.path.isdir(self.agent.root):
            with self.agent.lock():
                manager = Manager(self.agent.manager)
                manager.stop(manager.units_of(self.agent.root))


@frozen
class Start:
    """Start the agent's units with the configuration that they have. Without systemd, only a person can start it."""

    agent: Agent

    def perform(self, _: Payload) -> None:
        if self.agent.manager and os.path.isdir(self.agent.root):
            with self.agent.lock():
                manager = Manager(self.agent.manager)
                units = manager.units_of(self.agent.root)
                if units:
                    manager.must("start", *units)


def _expect_stopped(agent: Agent) -> None:
    """Refuse if the agent runs: only the person at its terminal can end it."""
    if is_held(f"{own(agent.state)}/lease"):
        raise Refusal(f"the agent is running ({holder(agent.state)}); end it first", BUSY)


@frozen
class Remove:
    """Remove the agent's units, configuration, code and container, and keep the state.

    Software that was installed in the container is lost.
    """

    agent: Agent
    engine: str = ""

    def perform(self, _: Payload) -> None:
        agent, root = self.agent, self.agent.root
        if not agent.manager:
            _expect_stopped(agent)
            self._drop_configuration()
            remove_empty(os.path.dirname(root))  # a state may be in it
            return
        with dropping_unnamed(agent, self.engine):  # an image that a container uses cannot be removed
            with agent.lock() if os.path.isdir(root) else nullcontext():
                self._drop_units()
            if self.engine:
                remove_containers(agent, self.engine)

    def _drop_units(self) -> None:
        agent, manager = self.agent, Manager(self.agent.manager)
        expect_no_state(agent.root, agent.versions)  # before a unit is stopped, and again right before folders go
        for unit in manager.units_of(agent.root):
            manager.must("stop", unit)
        for unit in manager.linked(agent.root):
            manager.drop(unit)
        manager.drop_table(agent.id)
        manager.run("daemon-reload")
        if not manager.is_user:
            close_account_of(agent.root)  # it stays on the machine, with its home in the state
        manager.drop_programs(agent.root)
        self._drop_configuration()

    def _drop_configuration(self) -> None:
        expect_no_state(self.agent.root)
        remove_tree(self.agent.root)
        drop_versions(self.agent)
