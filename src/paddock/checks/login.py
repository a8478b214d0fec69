"""Check that nobody logs in to the agent's account, where nothing confines them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.checks.line import Line, Outcome
from paddock.checks.subject import Subject
from paddock.visible import one_line

_NAME: Final = "isolation.login"
_UNCONFINED: Final = "whoever logs in to it runs programs as the agent, without its confinement"
_NO_SHELLS: Final = ("/nologin", "/false")


def lines(subject: Subject, fact: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Line]:
    """Check that sshd refuses the account, and that it has expired. An account of a person is only told of."""
    found, seconds = fact["found"], fact["seconds"]
    if not subject.account:
        evidence = f"the agent has no account of its own, and Paddock does not change yours: {_UNCONFINED}"
        yield Line(_NAME, Outcome.UNAVAILABLE, evidence)
        return
    if found is None:
        yield Line.of(_NAME, False, f"there is no account {subject.account} on the machine", "run `paddock up`")
        return
    ways = list(_ways_in(found))
    if not found["made"]:
        yield _of_a_person(found, ways, subject.paths.home)
        return
    tried = found["attempt"]
    if tried.get("accepted"):
        ways.insert(0, f"sshd let {found['name']} in with a key")
    hint = (
        f"others can run programs as the agent, without its confinement: `paddock up --only {subject.agent}` closes it"
    )
    evidence = f"the account {found['name']} has expired and has no shell; {_said(tried)}"
    yield Line.of(_NAME, not ways, one_line("; ".join(ways)) if ways else one_line(evidence), hint, seconds)


def _ways_in(found: Mapping[str, Any]) -> Iterator[str]:
    if not found["shell"].endswith(_NO_SHELLS):
        yield f"its shell is {found['shell'] or '/bin/sh'}"
    if not found["expired"]:
        yield "it has not expired"
    if found["lingers"]:
        yield "it lingers"


def _said(tried: Mapping[str, Any]) -> str:
    if "missing" in tried:
        return f"no login was tried: {tried['missing']}"
    return f"sshd refused a key: {tried['said']}" if tried["answered"] else f"sshd did not answer: {tried['said']}"


def _of_a_person(found: Mapping[str, Any], ways: list[str], home: str) -> Line:
    """Return what a person may want to know. Paddock does not change an account that it did not make."""
    name = found["name"]
    if not ways:
        return Line(_NAME, Outcome.OK, f"the account {name} has expired and has no shell")
    keys = "the agent can write ~/.ssh/authorized_keys there, and " if found["home"] == home else ""
    evidence = f"Paddock did not make the account {name}, so it stays as it is ({', '.join(ways)}): {keys}{_UNCONFINED}"
    hint = f"if nobody else uses it, run as root: usermod --expiredate 1 --shell /usr/sbin/nologin {name}"
    return Line(_NAME, Outcome.UNAVAILABLE, one_line(evidence), hint)
