"""An agent plants a key in its own home, so that a stranger can log in to its account without its confinement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hostile import login_server
from hostile.ground import Machine, as_root
from hostile.login_server import log_in, plant
from hostile.private_machine import PrivateMachine, spec_of
from paddock.channels.onboard import ask
from paddock.channels.sent import on_demand
from paddock.file.agent_id import AgentId
from paddock.onboard.systemd.account import CloseAccount
from paddock.runtimes.contract import Runtime
from paddock.runtimes.open import runtime_for
from paddock.verify import confinement as judged
from paddock.verify.line import Line, Outcome, Subject

pytestmark = as_root

UID = 10777
BEE = {"name": "bee", "uid": UID}
HOME = "/var/lib/paddock/bee/home"
AS_EARLIER = """
usermod --expiredate '' --shell /bin/bash bee
mkdir -p /var/lib/systemd/linger
touch /var/lib/systemd/linger/bee
"""
SHADOW = "getent passwd bee | cut -d : -f 7; getent shadow bee | cut -d : -f 8"
_LOOK = """
import json
from paddock.onboard.facts.login import login
print(json.dumps(login("bee")))
"""


@pytest.fixture
def machine(ground: Machine) -> PrivateMachine:
    login_server.install(ground)
    return PrivateMachine(ground)


def runtime_of(**keys: Any) -> Runtime:
    return runtime_for(AgentId("home", "bee"), spec_of("bee", **keys), Path(), None)


def verified(machine: PrivateMachine) -> Line:
    """Return the line of `verify` about logins."""
    module = "paddock.onboard.facts.login"
    program = on_demand(module).replace(f"sys.modules[{module!r}].main()", _LOOK)
    found = json.loads(machine.run("python3", "-I", "-S", "-c", program))
    subject = Subject("bee", runtime_of().paths, (), "", {}, None, (), frozenset(), False, False, account="bee")
    (line,) = judged.login_lines(subject, {"found": found, "seconds": 0.0}, {})
    assert machine.run("find", "/run", "-name", "paddock-login-*") == ""
    return line


def test_a_planted_key_does_not_open_the_account_of_a_new_agent(machine: PrivateMachine) -> None:
    machine.apply("bee", user=BEE)
    plant(machine.ground, UID, HOME)
    came_in = log_in(machine.ground, "bee", "id", "-un")
    assert "bee" not in came_in.out
    assert "Your account has expired" in came_in.err
    line = verified(machine)
    assert line.outcome is Outcome.OK
    assert "sshd refused a key: Your account has expired" in line.evidence


def test_the_account_of_an_earlier_version_is_closed_while_the_agent_runs(machine: PrivateMachine) -> None:
    machine.apply("bee", user=BEE)
    machine.ground.root(AS_EARLIER)
    machine.ground.root("mkdir -p /run/systemd/users && touch /run/systemd/users/10777")
    plant(machine.ground, UID, HOME)
    assert log_in(machine.ground, "bee", "id", "-un").out == "bee\n", "the test would prove nothing"
    line = verified(machine)
    assert line.outcome is Outcome.FAILED
    assert "sshd let bee in with a key; its shell is /bin/bash; it has not expired; it lingers" in line.evidence

    seen = machine.observe("bee", user=BEE)
    assert list(seen.account_open) == ["its shell is /bin/bash", "it has not expired", "it lingers"]
    calls = len(machine.ground.calls)
    ask(machine.guest, "closing", CloseAccount(runtime_of(user=BEE).deployed))
    assert machine.ground.calls[calls:] == ["loginctl terminate-user bee"]  # no unit is touched
    assert machine.ground.root(SHADOW).split() == ["/usr/sbin/nologin", "1"]
    assert log_in(machine.ground, "bee", "id", "-un").out == ""
    assert machine.observe("bee", user=BEE).account_open == ()
    assert verified(machine).outcome is Outcome.OK


def test_configuring_and_removing_close_the_account_too(machine: PrivateMachine) -> None:
    machine.apply("bee", user=BEE)
    machine.ground.root(AS_EARLIER)
    machine.apply("bee", user=BEE)
    assert machine.ground.root(SHADOW).split() == ["/usr/sbin/nologin", "1"]
    machine.ground.root(AS_EARLIER)
    machine.remove("bee", user=BEE)
    assert machine.ground.root(SHADOW).split() == ["/usr/sbin/nologin", "1"], "its home, with the key, is kept"


@pytest.mark.parametrize("create", [True, False])
def test_the_account_of_a_person_is_never_changed(machine: PrivateMachine, *, create: bool) -> None:
    machine.ground.root(
        "groupadd --gid 10777 bee; useradd --uid 10777 --gid 10777 --shell /bin/bash --comment 'A person' bee"
    )
    before = machine.ground.root("getent passwd bee; getent shadow bee; touch -d 2020-01-01 /etc/passwd /etc/shadow")
    user = BEE if create else {"name": "bee", "create": False}
    machine.apply("bee", user=user)
    assert machine.observe("bee", user=user).account_open == ()
    ask(machine.guest, "closing", CloseAccount(runtime_of(user=user).deployed))
    line = verified(machine)
    assert line.outcome is Outcome.UNAVAILABLE
    assert "Paddock did not make the account bee, so it stays as it is (its shell is /bin/bash" in line.evidence
    machine.remove("bee", user=user)
    assert machine.ground.root("getent passwd bee; getent shadow bee") == before
    assert machine.ground.root("date -r /etc/shadow +%Y") == "2020\n"


def test_without_pam_and_with_other_settings_sshd_refuses_the_account_too(machine: PrivateMachine) -> None:
    machine.apply("bee", user=BEE)
    plant(machine.ground, UID, HOME)
    machine.ground.root("usermod --password x bee; echo UsePAM no >/etc/ssh/sshd_config")
    assert "Permission denied (publickey" in log_in(machine.ground, "bee", "id", "-un").err
    line = verified(machine)
    assert line.outcome is Outcome.OK
    assert "Account bee has expired" in line.evidence
    machine.ground.root(AS_EARLIER)
    assert "sshd let bee in with a key" in verified(machine).evidence


def test_a_machine_without_a_working_sshd_shows_the_account(machine: PrivateMachine) -> None:
    machine.apply("bee", user=BEE)
    machine.ground.root("rmdir /run/sshd")
    line = verified(machine)
    assert line.outcome is Outcome.OK
    assert "sshd did not answer" in line.evidence
    machine.ground.root("rm /usr/sbin/sshd")
    assert "no login was tried: there is no sshd" in verified(machine).evidence
    machine.ground.root(AS_EARLIER)
    assert verified(machine).outcome is Outcome.FAILED


def test_root_still_enters_the_closed_account(machine: PrivateMachine) -> None:
    machine.apply("bee", user=BEE)
    assert machine.run("runuser", "-u", "bee", "--", "id", "-un") == "bee\n"
    refused = machine.ground.run(["su", "bee", "-s", "/bin/sh", "-c", "id -un"])
    assert not refused.ok
    assert "Your account has expired" in refused.err
