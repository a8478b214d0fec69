"""What leaves Paddock, by name: files, arguments, requests and printed lines. A row of the table names one of these."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property, partial
from importlib import import_module
from typing import Any, Final, cast

from keys.shapes import AGENT
from keys.world import World
from paddock.backups.contract import Backup, BackupsSeen
from paddock.backups.keep import kept
from paddock.base.errors import BadInput, PaddockError
from paddock.channels import Guest
from paddock.channels.onboard import needed
from paddock.core import on_machine
from paddock.core import verify as verifying
from paddock.core.deployment import Deployment
from paddock.core.notify import Notifier
from paddock.core.open import deployments
from paddock.core.resolve import Located, Resolved, SecretsMissing, locate, resolve
from paddock.file.commands import commands
from paddock.file.load import Loaded
from paddock.file.secrets.allowed import allow
from paddock.kinds.workload import Answer, Page
from paddock.onboard import configure
from paddock.onboard.engine import containers
from paddock.places.proxmox.place import ProxmoxPlace
from paddock.plan import agent as inside
from paddock.plan.actions import ApplyBundle, CreateContainer
from paddock.plan.agent import AgentSeen
from paddock.plan.container import NOTHING_YET
from paddock.plan.step import AdoptTarget, Goal
from paddock.show.reporter import Reporter
from paddock.verbs import backup, doctor
from paddock.verify import backup as backup_checks
from paddock.verify import exposure
from paddock.verify.look import look


@dataclass(frozen=True)
class Case:
    """One file, and the agent in it."""

    loaded: Loaded
    agent: Deployment
    world: World

    @classmethod
    @contextmanager
    def of(cls, loaded: Loaded, world: World) -> Iterator[Case]:
        """Open the agent with Paddock's own code; requests go to the simulated node and commands to the gate."""
        allow(command.argv for command in commands(loaded.spec))
        with deployments(loaded, [AGENT], Reporter()) as [agent]:
            for each in (agent, agent.model_gateway):
                if each and isinstance(each.place, ProxmoxPlace):
                    each.place._client._http._transport = world.wire
            yield cls(loaded, agent, world)

    @cached_property
    def located(self) -> Located:
        return locate(self.agent)

    @cached_property
    def resolved(self) -> Resolved:
        return resolve(self.located)

    @property
    def node(self) -> ProxmoxPlace:
        assert isinstance(self.agent.place, ProxmoxPlace), "a row of places on Proxmox shows on a host"
        return self.agent.place


# Of every agent


def files(case: Case) -> Any:
    """The files of the bundle, and whose they are. A setting counts only if a program of the shape reads it."""
    found = {path: f"{file.mode:o} {file.content}" for path, file in case.resolved.bundle.files.items()}
    scripts = "".join(text for path, text in found.items() if path != "bundle.env").replace("{", "")
    runtime = case.resolved.runtime
    programs = program_of(has_units=bool(runtime.manager), has_engine=runtime.container is not None)
    lines = {line.partition("=")[0]: line for line in found["bundle.env"].split("\n")}
    read = [line for name, line in lines.items() if f"${name}" in scripts or f'"{name}"' in programs]
    return {**found, "bundle.env": read, "agent": runtime.deployed.id}


@cache
def program_of(*, has_units: bool, has_engine: bool) -> str:
    """Return the source of the program that applies a bundle on a machine."""
    unused = [*([] if has_units else ["systemd"]), *([] if has_engine else ["engine"])]
    modules = needed(configure.__name__) | needed(containers.__name__)
    used = [name for name in modules if name.split(".")[2] not in unused]
    return "".join(inspect.getsource(import_module(name)) for name in sorted(used))


def open_to_all(case: Case) -> Any:
    """The pinned variables that let everyone talk to the agent."""
    lines = case.resolved.bundle.files["hermes/.env"].content.split("\n")
    return [line for line in lines if "_ALLOW_ALL_USERS" in line]


def secrets(case: Case) -> Any:
    """The secrets that are sent with the bundle, variables and files, or why they cannot be read."""
    known = case.resolved.secrets
    if isinstance(known, SecretsMissing):
        return known.error.message
    return [{name: value.reveal() for name, value in each.items()} for each in (known.environment, known.files)]


def software(case: Case) -> Any:
    """The packages, the code and the image that are installed on the machine."""
    steps = inside.up(AGENT, case.resolved.want(), AgentSeen(container=NOTHING_YET))
    bundle = (ApplyBundle, CreateContainer)
    return [step.action for step in steps if not isinstance(step.action, bundle)], case.resolved.code


def arguments(case: Case) -> Any:
    """The requests to the machine, and the arguments of the programs that run there."""
    agent, runtime, guest = case.resolved, case.resolved.runtime, case.world.guest()
    with suppress(PaddockError):
        on_machine.claim_state(agent, cast("Guest", guest))
    return [
        runtime.observe(agent.packages, agent.distribution),
        runtime.enter(["true"]),
        runtime.logs(10, follow=False),
        runtime.remove(),
        *guest.got,
        *([container.pull(), container.image.load] if (container := runtime.container) else []),
    ]


def verify(case: Case) -> Any:
    """The questions of `verify`, and its line about ports that others can reach."""
    agent, guest = case.resolved, case.world.guest()
    subject = verifying._subject(agent)
    look(cast("Guest", guest), subject, verifying._argvs(agent, subject), quick=False)
    sockets = {"found": [["0.0.0.0", 8099]], "seconds": 0}
    return guest.got, [line.evidence for line in exposure.listening(subject, sockets, {})]


def health(case: Case) -> Any:
    """The verdict on a health page that answers with status 204."""
    probe = case.resolved.probes("").health
    assert isinstance(probe, Page)
    return probe.judge(Answer(204, None))


def version_line(case: Case) -> Any:
    """The verdict of `verify` on an image whose agent says that it has version 0.19.0."""
    asked, answer = verifying._subject(case.resolved).asked, Answer(200, {"version": "0.19.0"})
    return [check.judge(answer) for check in asked if check.name == "version"]


def patience(case: Case) -> Any:
    """The seconds that `up` waits for an agent that does not become healthy."""
    with case.world.simulated_clock() as clock:
        try:
            guest = cast("Guest", case.world.guest())
            on_machine.OnMachine()._await_health(
                case.located, guest, partial(verifying.expect_health, case.located, guest)
            )
        except PaddockError:
            return clock.passed
    raise AssertionError("an agent that does not answer became healthy")


def chosen(case: Case) -> Any:
    """The agents that verbs without a name work on."""
    try:
        with deployments(case.loaded, [], Reporter()) as found:
            return [agent.name for agent in found]
    except BadInput as refused:  # none is enabled
        return str(refused)


# Of the place


def plan(case: Case) -> Any:
    """The plan for the node: its steps with the parameters of the API, its refusals and its notes."""
    want, place = case.located.machine_want, case.node
    found = place.plan(Goal.UP, want, case.world.seen(place, want))
    return [(step.title, step.action, step.commands) for step in found.steps], found.refusals, found.notes


def adoption(case: Case) -> Any:
    """The plan that adopts a container of somebody else."""
    want, place = case.located.machine_want, case.node
    return place.adoption.plan(want, AdoptTarget(machine=case.world.foreign), case.world.seen(place, want)).steps


def requests(case: Case) -> Any:
    """The requests that read the node, with their credentials."""
    case.world.wire.sent.clear()
    with suppress(PaddockError):
        case.agent.place.observe()
    return [(str(request.url), request.headers["Authorization"]) for request in case.world.wire.sent]


def trust(case: Case) -> Any:
    """The certificates that are accepted from the node, or the refusal to connect."""
    node = case.node._spec
    try:
        context = case.world.trust(node.url, case.loaded.folder / node.ca if node.ca else None, node.fingerprint)
    except PaddockError as error:
        return error.message
    return context.get_ca_certs()


def ssh(case: Case) -> Any:
    """The commands that reach the machine and, on Proxmox, the node's shell."""
    place, gate = case.agent.place, case.world.gate
    gate.ran.clear()
    if isinstance(place, ProxmoxPlace):
        place._reacher.guest(AGENT, 321, "192.0.2.30", ["ssh-ed25519 AAAA"]).run(["true"])
        if place._root:
            place._root.run(["true"])
    else:
        assert place.doctor
        place.doctor.examine([])
    return list(gate.ran)


def doctor_lines(case: Case) -> Any:
    """The lines of `doctor`."""
    return doctor.as_text(doctor.examine([case.agent]))


# Of backups


def pruned(case: Case) -> Any:
    """The backups that `backup prune` keeps of one from each of the last 1000 days."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    days = [now - timedelta(days=day) for day in range(1000, 0, -1)]
    spec = case.agent.spec.backup
    assert spec
    return list(kept([Backup(f"{day:%F}", day, 1, {}) for day in days], spec.keep))


def destination(case: Case) -> Any:
    """Where backups go: the destination as it is shown, restic's environment, or the plan of the archive."""
    found = backup.destination_of(case.agent)
    environment = found.repository._environment if hasattr(found, "repository") else {}
    changed = {name: value for name, value in environment.items() if case.world.environment.get(name) != value}
    return found.shown, changed, getattr(found, "recipients", None), getattr(found, "signatures", None)


def backup_line(case: Case) -> Any:
    """The line of `status` and `verify` about a backup that is three days old."""
    spec, now = case.agent.spec.backup, datetime(2026, 1, 5, tzinfo=UTC)
    assert spec
    old = Backup("old", now - timedelta(days=3), 1, {})
    return backup_checks.newest_in_words(BackupsSeen(spec.max_age, "", newest=old), now)


def notification(case: Case) -> Any:
    """What is run or sent when a backup fails."""
    with case.world.notified() as told:
        Notifier.of(case.agent).failed("backup", "no room")
    return told


OBSERVABLES: Final[Mapping[str, Callable[[Case], Any]]] = {
    "files": files,
    "open to all": open_to_all,
    "secrets": secrets,
    "software": software,
    "arguments": arguments,
    "verify": verify,
    "health": health,
    "version line": version_line,
    "patience": patience,
    "chosen": chosen,
    "plan": plan,
    "adoption": adoption,
    "requests": requests,
    "trust": trust,
    "ssh": ssh,
    "doctor": doctor_lines,
    "pruned": pruned,
    "destination": destination,
    "backup line": backup_line,
    "notification": notification,
}
