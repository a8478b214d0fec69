"""Drill: prove a backup by restoring it to a throwaway copy of its agent, which must recall a fact of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from paddock.backups.contract import Backup, Backups, Drill
from paddock.base import clock
from paddock.base.errors import PaddockError, Refused
from paddock.base.frozen import frozen
from paddock.base.text import one_line
from paddock.channels import Guest, onboard
from paddock.core import converge
from paddock.core.ask import ask
from paddock.core.deployment import Deployment
from paddock.core.lock import drill_lock
from paddock.core.notify import Notifier
from paddock.core.observe import observe, reach
from paddock.core.resolve import Located, locate
from paddock.onboard.databases import CheckDatabases, Examined
from paddock.onboard.standin import digest
from paddock.onboard.stream.layout import matcher
from paddock.plan.step import Plan
from paddock.verbs import copies
from paddock.verbs.backup import keeper, known, question
from paddock.verbs.restore import choose, incoming_of

_CHECK_SECONDS: Final = 600


@frozen
class Trial:
    """One backup, and the copy that it is restored to."""

    agent: Deployment
    destination: Backups
    backup: Backup
    copy: Deployment
    asked_for: bool  # a person named this backup; otherwise it is the newest
    real_model: bool

    @classmethod
    def of(cls, agent: Deployment, which: str | None, *, real_model: bool) -> Trial:
        """Choose a backup, and describe the copy."""
        found = known(agent, choose(agent, which))
        if found.doubts:
            agent.reporter.say(question(agent, found))
        backup = found.backup
        destination = keeper(agent, backup)
        expects = tuple(_databases(agent, destination, backup))
        incoming = replace(incoming_of(agent, backup), expects=expects)
        copy = copies.copy_of(agent, copies.throwaway_name(agent.name), incoming, real_model=real_model)
        return cls(agent, destination, backup, copy, which is not None, real_model)

    @property
    def shown(self) -> str:
        """The backup with its age."""
        return f"backup {self.backup.name} ({in_words(self._age)} old)"

    @property
    def too_old(self) -> str | None:
        """Why the newest backup is too old."""
        spec = self.agent.spec.backup
        if self.asked_for or spec is None or self._age.total_seconds() <= spec.max_age:
            return None
        return f"it is the newest one, and older than backup.max_age, {spec.max_age}"

    @property
    def _age(self) -> timedelta:
        return clock.now() - self.backup.made


def _databases(agent: Deployment, destination: Backups, backup: Backup) -> Iterator[str]:
    """Yield the databases that a backup must have: those of every agent, and lasting ones of an earlier backup."""
    keeping = agent.recipe.keeping(agent.spec)
    yield from keeping.required
    earlier = [each for each in destination.backups() if each.made < backup.made and not each.distrust]
    had: Mapping[str, Any] = (earlier[-1].about.get("schemas") or {}) if earlier else {}
    lasting = matcher(list(keeping.lasting))
    yield from (path for path in had if lasting.fullmatch(path) and path not in keeping.required)


def plan(trial: Trial) -> Plan:
    """Observe the place, and plan what creates the copy."""
    return converge.plan(trial.copy)


def later_steps(trial: Trial) -> list[str]:
    """Return the later work of a drill in words: it cannot be planned before the copy exists."""
    return [
        f"check the databases of {trial.copy.name}",
        f"have {trial.copy.name} recall a fact of the backup",
        f"remove {trial.copy.name}, with its machine and its state",
    ]


def drill(trial: Trial) -> str:
    """Prove a backup, return a line about it, and notify of a failure."""
    with Notifier.of(trial.agent).failures("drill"):
        return _drill(trial)


def _drill(trial: Trial) -> str:
    """Restore a backup to a copy, prove it, keep the result and remove the copy; return a line about it."""
    with drill_lock(trial.agent):
        copies.remove(trial.copy)  # an earlier drill may have been killed
        begin = clock.monotonic()
        try:
            found = _outcome(trial, begin)
            _record(trial, found)
        finally:
            copies.remove(trial.copy)
    if found.failure is None:
        return f"{trial.agent.name}: {trial.shown} restored in {found.seconds:.0f} s, {found.proof}"
    why = found.failure
    raise PaddockError(f"{trial.agent.name}: {trial.shown} did not pass: {why.message}", hint=why.hint)


@frozen
class _Outcome:
    seconds: float  # until the agent answered, or the drill failed
    proof: str = ""
    failure: PaddockError | None = None


def _outcome(trial: Trial, begin: float) -> _Outcome:
    """Create the copy and prove the backup with it."""
    try:
        with trial.copy.stand_in or nullcontext():
            converge.up(trial.copy)
            seconds = clock.monotonic() - begin
            proof = _prove(trial)
    except PaddockError as failure:
        return _Outcome(clock.monotonic() - begin, failure=failure)
    late = trial.too_old
    # The age is judged last, so that the record says whether at least the restore works.
    old = PaddockError(f"it was restored in {seconds:.0f} s, {proof}; but {late}") if late else None
    return _Outcome(seconds, proof, old)


def _record(trial: Trial, found: _Outcome) -> None:
    """Keep the result beside the backups, before the copy is removed: that may fail too."""
    at = clock.now().replace(microsecond=0)
    why = found.failure.message if found.failure else None
    trial.destination.note_drill(Drill(trial.backup.name, at, round(found.seconds, 1), why))


def _prove(trial: Trial) -> str:
    """Check the databases of the copy and ask it for a fact; return the result in words."""
    located = locate(trial.copy)
    guest = reach(located, observe(located))
    with trial.copy.reporter.step("drill.databases", f"check the databases of {trial.copy.name}"):
        rows = _check_databases(located, guest)
    texts = trial.destination.texts(trial.backup) or {}
    keeping = trial.agent.recipe.keeping(trial.agent.spec)
    documents = [each.text or "" for each in trial.agent.spec.documents.values()]
    facts = facts_to_recall(texts, keeping.recalled, documents)
    if not facts:
        return f"and its databases hold {rows} rows; it has no memory text that the agent could recall"
    with trial.copy.reporter.step("drill.recall", f"have {trial.copy.name} recall a fact of the backup"):
        _recall(located, guest, facts, real_model=trial.real_model)
    return "and the agent recalled a fact of it"


def _check_databases(copy: Located, guest: Guest) -> int:
    """Check every database as the agent sees it; return the number of all rows."""
    keeping = copy.recipe.keeping(copy.spec)
    asked = CheckDatabases(copy.paths.home, list(keeping.databases), list(keeping.rebuilt), copy.account)
    what = f"checking the databases of {copy.name}"
    found = onboard.ask(guest, what, asked, deadline=_CHECK_SECONDS, into=dict[str, Examined])
    broken = [f"{path}: {each.said}" for path, each in found.items() if each.said != "ok"]
    if broken:
        raise PaddockError(one_line(f"its databases are damaged: {'; '.join(broken)}"))
    return sum(each.rows for each in found.values())


def _recall(copy: Located, guest: Guest, facts: list[str], *, real_model: bool) -> None:
    """Ask the copy for one fact after the other, each in a new conversation, until it recalls one."""
    said = ""
    for fact in facts:
        probe = copy.probes(question_about(fact, real_model=real_model)).prompt
        if probe is None:
            raise Refused(f"{copy.name} takes no prompts")
        verdict = ask(guest, copy.runtime, probe)
        if verdict.ok and is_recalled(fact, verdict.evidence, real_model=real_model):
            return
        said = verdict.evidence
    raise PaddockError(one_line(f"the agent did not recall a fact of it: it answered {said[:200]!r}"))


def in_words(age: timedelta) -> str:
    """Return an age for a person."""
    minutes = int(age.total_seconds()) // 60
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} days"


_SHORTEST, _LONGEST = 8, 500
_MOST: Final = 3
_WORD: Final = re.compile(r"\w+")
_ENOUGH: Final = 0.8  # of a line's words; a model may change the form of a line


def facts_to_recall(texts: Mapping[str, str], recalled: Sequence[str], documents: Sequence[str]) -> list[str]:
    """Return lines of a backup that its agent puts before its model, the longest first.

    Lines of ``documents`` do not count: the file gives them to every agent.
    """
    wanted = matcher(list(recalled))
    given = {line.strip() for text in documents for line in text.split("\n")}
    lines = (line.strip() for path, text in texts.items() if wanted.fullmatch(path) for line in text.split("\n"))
    usable = {line for line in lines if _SHORTEST <= len(line) <= _LONGEST and "\ufffd" not in line} - given
    return sorted(usable, key=lambda line: (-len(line), line))[:_MOST]


def question_about(fact: str, *, real_model: bool) -> str:
    """Return a question whose answer is a fact, and that does not contain it."""
    if real_model:
        return "Without using any tool, repeat every entry of your memory and of your user profile, word for word."
    return f"Repeat the line of your instructions with the SHA-256 {digest(fact)}."


def is_recalled(fact: str, answer: str, *, real_model: bool) -> bool:
    """Whether an answer contains a fact. A real model may change its form, but no number in it."""
    wanted, said = set(_WORD.findall(fact.lower())), set(_WORD.findall(answer.lower()))
    if not real_model or not wanted:
        return fact in answer
    numbers = {word for word in wanted if any(letter.isdigit() for letter in word)}
    return numbers <= said and len(wanted & said) >= _ENOUGH * len(wanted)
