"""Verify one agent: its place, its machine and its own answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, overload
from urllib.parse import urlsplit

from paddock.base import clock
from paddock.base.clock import Wait
from paddock.base.errors import PaddockError
from paddock.base.frozen import frozen
from paddock.base.secret import Secret
from paddock.channels import Guest
from paddock.core.ask import health_question, healthy, judged_health
from paddock.core.deployment import Deployment
from paddock.core.files import problems
from paddock.core.observe import Observation, expect_own_id, observe, reach
from paddock.core.resolve import Located, Resolved, SecretsMissing, locate, resolve
from paddock.kinds.workload import Command, Health, OpenPort
from paddock.onboard.facts.main import Look
from paddock.places.contract import PlaceSeen
from paddock.show import journal
from paddock.verify import confinement, egress, judge, state
from paddock.verify import look as asked
from paddock.verify.line import Line, Outcome, Subject, as_text, by_topic
from paddock.verify.look import RuntimeArgvs, look, question

_SETTLE_SECONDS: Final = 30.0
_LISTENING: Final = 3.0  # seconds that a request waits for the agent to listen, before its units are looked at
_HEALTHY: Final = 15.0  # the same for the checks, which look at the units themselves
_LIMITS: Final = frozenset({"memory", "cores"})
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


@frozen
class Report:
    """The lines of one agent's verification."""

    agent: str
    lines: list[Line]

    @property
    def ok(self) -> bool:
        return not self.failed

    @property
    def failed(self) -> list[Line]:
        return [line for line in self.lines if line.failed]

    def as_data(self) -> dict[str, Any]:
        return {"agent": self.agent, "ok": self.ok, "lines": [line.as_data() for line in self.lines]}

    def as_text(self) -> str:
        return f"{self.agent}:\n{as_text(self.lines)}"


@frozen
class Unhealthy:
    """An agent that is not healthy, or not yet."""

    evidence: str


def verify_without_backups(agent: Deployment) -> Report:
    """Observe an agent and run all checks, except those of its backups: a new agent has none yet."""
    located = locate(agent)
    seen = observe(located)
    try:
        guest = reach(located, expect_own_id(located, seen))
    except PaddockError as error:
        reached = Line("reached", Outcome.FAILED, error.message, error.hint)
        return Report(agent.name, [*_outside(located, seen.place), reached])
    return verify_through(resolve(located), guest, seen.place, quick=False)


def is_healthy(agent: Resolved, seen: Observation) -> bool:
    """Run the quick checks on an agent as it was observed."""
    try:
        guest = reach(agent, seen)
    except PaddockError:
        return False
    known = seen.agent.facts if seen.agent else None
    return verify_through(agent, guest, seen.place, quick=True, known=known).ok


def quick_question(agent: Resolved) -> Look:
    """Return the request to an agent's machine for the facts of the quick checks."""
    subject = _subject(agent)
    return question(subject, _argvs(agent, subject), quick=True, only_running=True)


def verify_through(
    agent: Resolved, guest: Guest, place: PlaceSeen, *, quick: bool, known: Mapping[str, Any] | None = None
) -> Report:
    """Run the checks through a guest, or on facts that are known already."""
    subject = _subject(agent)
    facts = known or look(guest, subject, _argvs(agent, subject), quick=quick)
    inside = judge.lines(subject, facts, quick=quick)
    if not any(line.check == "health" for line in inside):
        health = healthy(guest, agent.runtime, agent.probes("").health)
        inside.append(Line.of("health", health.ok, health.evidence, f"`paddock logs {agent.name}` shows more"))
    told = () if quick else _told(agent, place)
    return Report(agent.name, by_topic([*_outside(agent, place), *inside, *told, *_mounts(agent, guest, place)]))


def expect_health(agent: Located, guest: Guest, left: float) -> Unhealthy | None:
    """Wait a while until the agent is healthy, at most the seconds that are left."""
    probe, patience = agent.probes("").health, min(left, _LISTENING)
    health = healthy(guest, agent.runtime, probe, patience=patience)
    return None if health.ok else Unhealthy(health.evidence)


def verify_when_healthy(agent: Resolved, guest: Guest, left: float) -> Report | Unhealthy:
    """Wait a while until the agent is healthy, at most the seconds that are left, and run all checks then.

    Both are one round trip. The programs of the checks load while the agent starts, so that it gets the prompt as soon
    as it is healthy.
    """
    question = health_question(agent.runtime, agent.probes("").health, min(left, _HEALTHY))
    if question is None:
        return expect_health(agent, guest, left) or _verify_beside(agent, guest)
    return _verify_beside(agent, guest, question)


def verify_when_settled(agent: Resolved, guest: Guest, report: Report) -> Report:
    """Return the report about an agent that has just become healthy. Checks that settle later get up to 30 seconds."""
    slow = [replace(check, quick=True, needs=None) for check in _subject(agent).asked if check.settles]
    if report.ok or not {line.check for line in report.failed} <= {check.name for check in slow}:
        return report
    subject = replace(_subject(agent), asked=slow)
    wait = Wait(_SETTLE_SECONDS)
    while not wait.is_over:
        found = look(guest, subject, _argvs(agent, subject), quick=True)["inside"]["found"]
        if not any(line.failed for line in asked.lines(slow, found)):
            break
        clock.sleep(0.5)
    return _verify_beside(agent, guest)


@overload
def _verify_beside(agent: Resolved, guest: Guest) -> Report: ...


@overload
def _verify_beside(agent: Resolved, guest: Guest, health: Mapping[str, Any]) -> Report | Unhealthy: ...


def _verify_beside(agent: Resolved, guest: Guest, health: Mapping[str, Any] | None = None) -> Report | Unhealthy:
    """Run all checks, after the question of the agent's health, and observe the place while the machine answers."""
    with ThreadPoolExecutor(max_workers=1) as beside:
        place = beside.submit(agent.place.observe, agent.machine_want)
        subject = _subject(agent)
        known = look(guest, subject, _argvs(agent, subject), quick=False, health=health)
        if health and not (judged := judged_health(agent.probes("").health, known["health"])).ok:
            return Unhealthy(judged.evidence)
        return verify_through(agent, guest, place.result(), quick=False, known=known)


def ports_of_others(agent: Resolved, guest: Guest) -> Line | None:
    """Return the failed line about ports if another program listens on a port of the agent."""
    subject = _subject(agent)
    facts = look(guest, subject, _argvs(agent, subject), quick=True)
    lines = judge.lines(subject, facts, quick=True)
    return next((line for line in lines if line.check == "ports" and line.failed), None)


def _mounts(agent: Located, guest: Guest, place: PlaceSeen) -> Iterator[Line]:
    """Check that the agent can use the directories under ``mounts:``, with the agent's own ids."""
    if not agent.spec.mounts:
        return
    owner = agent.place.machine(agent.machine_want, place).owner
    wrong = list(problems(guest, agent.spec, owner, made_for_it=not agent.place.traits.keeps_machine))
    shown = ", ".join(f"{mount.path} is {mount.host}" for mount in agent.spec.mounts)
    evidence = "\n".join(sentence for sentence, _ in wrong) or f"{shown}, owned by {owner} on the host"
    yield Line.of("mounts", not wrong, evidence, "\n".join(hint for _, hint in wrong))


def _outside(agent: Located, place: PlaceSeen) -> Iterator[Line]:
    for finding in agent.place.verify(agent.machine_want, place):
        yield Line.of(finding.subject, finding.ok, finding.evidence, finding.hint)


def _told(agent: Resolved, place: PlaceSeen) -> Iterator[Line]:
    """Check that neither the place's notes nor the local journals contain a secret."""
    if isinstance(agent.secrets, SecretsMissing):  # the other checks need no secrets
        evidence = "not compared: " + agent.secrets.error.message.partition("\n")[0]
        yield Line("secrets.notes", Outcome.UNAVAILABLE, evidence)
        yield Line("secrets.journal", Outcome.UNAVAILABLE, evidence)
        return
    new = "remove the secret there, and replace it with a new one at the service that issued it"
    values = agent.secrets.environment
    within = _within(values, agent.place.machine(agent.machine_want, place).notes)
    yield Line.of("secrets.notes", not within, ", ".join(within) or "none in the place's notes", new)
    journals = sorted(journal.folder().glob("*.jsonl"))
    telling = [path for path in journals if _within(values, path.read_text(encoding="utf-8", errors="replace"))]
    shown = ", ".join(map(str, telling[:3]))
    yield Line.of("secrets.journal", not telling, shown or f"none in {len(journals)} journals", new)


def _within(values: Mapping[str, Secret], text: str) -> list[str]:
    """Return the names of the secrets in a text. Values shorter than 6 characters occur by chance and are skipped."""
    return [name for name, value in values.items() if len(value.reveal()) >= 6 and value.reveal() in text]


def _subject(agent: Resolved) -> Subject:
    ports = agent.spec.ports()
    limits = {key: int(getattr(agent.spec.machine, key)) for key in agent.spec.machine.model_fields_set & _LIMITS}
    digests = {path: hashlib.sha256(file.content.encode()).hexdigest() for path, file in agent.bundle.files.items()}
    return Subject(
        agent=agent.name,
        paths=agent.paths,
        processes=agent.runtime.supervised(agent.workload),
        bundle_id=agent.bundle.id,
        files=digests,
        tree=f"{agent.paths.code}/{agent.code[0]}" if agent.code else None,
        asked=[
            *asked.of_every_agent(agent.name, agent.runtime.inside, agent.probes(agent.spec.verify.prompt)),
            *agent.recipe.checks(agent.configured, agent.name, agent.runtime.inside),
            *confinement.checks(agent.spec.container.sockets),
            *state.checks(agent.spec),
            *egress.checks(str(agent.id), agent.spec.network, agent.workload.reaches, agent.neighbours),
        ],
        confined=agent.runtime.confines,
        limited=agent.spec.network.closed,
        mounted=agent.place.traits.mounts_state,
        own_machine=not agent.place.traits.keeps_machine,
        account="" if agent.without_root or agent.runtime.foreground else agent.spec.user.name,
        memory=0 if agent.limits_units else limits.get("memory", 0),
        unit_memory=limits.get("memory", 0) if agent.limits_units else 0,
        unit_cores=limits.get("cores", 0) if agent.limits_units else 0,
        limits_units=agent.limits_units,
        ports=frozenset(ports.values()),
        health_port=frozenset(_health_port(agent.probes("").health)),
        exposed=frozenset(each.port or ports[name] for name, each in agent.spec.expose.items()),
    )


def _health_port(health: Health) -> Iterator[int]:
    """Yield the loopback port that health is asked on, if there is one."""
    match health:
        case None | Command():
            return
        case OpenPort(port):
            yield port
        case _:
            url = urlsplit(health.request.url)
            if url.hostname in _LOOPBACK:
                yield url.port or {"http": 80, "https": 443}[url.scheme]


def _argvs(agent: Resolved, subject: Subject) -> RuntimeArgvs:
    python = f"{subject.tree}/bin/python" if subject.tree else "python3"
    # A container has the code tree at the same path.
    return RuntimeArgvs(
        inspect=agent.runtime.inspect(),
        enter=agent.runtime.enter([python, "-I", "-S", "-c"]),
        logs=agent.runtime.logs(2000, follow=False),
    )
