"""Finding 8: `down` deleted a state that lay below Paddock's own folders, or above or below another agent's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostile.ground import Machine, as_root
from hostile.private_machine import PrivateMachine, spec_of
from paddock.errors import BadInput
from paddock.guests import expect
from paddock.guests.local import LocalGuest
from paddock.process import CommandFailed
from paddock.recipes import recipe_for
from paddock.run.deployment import Deployment
from paddock.runtimes.process.runtime import ForegroundProcess
from paddock.runtimes.systemd.runtime import Systemd
from paddock.spec.load import parse


@pytest.fixture
def machine(ground: Machine) -> PrivateMachine:
    return PrivateMachine(ground)


def refused(what: Callable[[], object]) -> str:
    """The sentence with which the machine refuses; empty if it does not."""
    try:
        what()
    except CommandFailed as failure:
        return str(failure)
    return ""


# In the file

OWN = [
    *(
        "/opt/paddock",
        "/opt/paddock/toy/memory",
        "/etc/paddock/toy/memory",
        "/etc/paddock/memories",
        "/opt",
        "/etc",
        "/",
    ),
    *("/var/lib/paddock", "/var/lib", "/opt//paddock/x/", "/etc/./paddock/x"),
    *("/home/me/.config/paddock/toy", "/home/me/.local/share/paddock/.code/x", "/home/me/.local/share"),
]


def accepted(host: dict[str, Any], **states: str) -> bool:
    agents = {
        name: {
            **{"kind": "service", "command": ["x"], "place": "here", "state": {"path": path}},
            "user": {"name": name, "uid": 10000 + number},
        }
        for number, (name, path) in enumerate(states.items())
    }
    try:
        return parse(json.dumps({"places": {"here": {"host": host}}, "agents": agents}), "paddock.yaml") is not None
    except BadInput:
        return False


@pytest.mark.parametrize("host", [{}, {"scope": "user"}], ids=["root", "an account"])
@pytest.mark.parametrize("path", OWN)
def test_the_file_refuses_a_state_in_or_above_paddocks_own(path: str, host: dict[str, Any]) -> None:
    assert not accepted(host, toy=path), f"`down` would delete from {path}"


@pytest.mark.parametrize(("one", "two"), [("/srv/a", "/srv/a/b"), ("/srv/a/b", "/srv/a"), ("/srv/a", "/srv/./a")])
@pytest.mark.parametrize("host", [{}, {"scope": "user"}], ids=["root", "an account"])
def test_the_file_refuses_a_state_in_or_above_another_one(one: str, two: str, host: dict[str, Any]) -> None:
    assert not accepted(host, one=one, two=two)


@pytest.mark.parametrize(
    "path", ["/srv/toy", "/var/lib/paddock/toy", "/var/lib/toy", "/home/toy", "/home/me/.config/toy"]
)
def test_ordinary_states_are_fine(path: str) -> None:
    assert accepted({}, toy=path)
    assert accepted({"scope": "user"}, toy=path)


# On the machine


@as_root
@pytest.mark.parametrize("path", ["/opt/paddock/toy/memory", "/etc/paddock/toy/memory"])
def test_down_does_not_delete_a_state_below_paddocks_own_folders(machine: PrivateMachine, path: str) -> None:
    sentence = refused(lambda: machine.apply("toy", state=path))
    fact = machine.at(path) / "home/fact"
    fact.parent.mkdir(parents=True, exist_ok=True)
    fact.write_text("the only copy")
    refused(lambda: machine.remove("toy", state=path))
    assert fact.exists() or sentence, f"`up` put the state into {path}, and `down` deleted it"
    assert "Paddock's own" in sentence or "the system's own" in sentence


@as_root
@pytest.mark.parametrize("path", ["/opt/paddock/toy/memory", "/etc/paddock/toy/memory", "/etc/paddock", "/opt/paddock"])
def test_down_spares_a_state_that_an_earlier_version_put_there(machine: PrivateMachine, path: str) -> None:
    machine.apply("toy", state="/srv/toy")
    machine.at("/srv/toy").rename(machine.at("/srv/moved"))
    machine.at(path).parent.mkdir(parents=True, exist_ok=True)
    machine.run("sh", "-c", 'mkdir -p "$1" && cp -a /srv/moved/. "$1"', "sh", path)
    fact = machine.at(path) / "home/fact"
    fact.write_text("the only copy")
    machine.at("/opt/paddock/toy").mkdir(parents=True, exist_ok=True)
    sentence = refused(lambda: machine.remove("toy", state=path))
    assert fact.exists(), f"`down` deleted the state in {path}"
    assert "holds the state of an agent" in sentence
    lease = Systemd("toy", spec_of("toy")).unit("lease")
    assert machine.at(f"/etc/systemd/system/{lease}").is_symlink(), "nothing was begun"


@as_root
@pytest.mark.parametrize("memory", ["/etc/paddock/toy/memory", "/opt/paddock/toy/memory"])
def test_down_looks_for_a_state_right_before_it_deletes(machine: PrivateMachine, memory: str) -> None:
    machine.apply("toy", state="/srv/toy")
    arrives = f"mkdir -p {memory}/.paddock {memory}/home; touch {memory}/home/fact"
    machine.ground.stub("systemctl", f"case $1 in stop) {arrives} ;; esac")
    refused(lambda: machine.remove("toy", state="/srv/toy"))
    assert machine.at(f"{memory}/home/fact").exists(), "`down` deleted a state that came while the agent was stopped"


@as_root
def test_pruning_code_spares_a_state_in_the_store(machine: PrivateMachine) -> None:
    fact = machine.at("/opt/paddock/.store/memory/home/fact")
    fact.parent.mkdir(parents=True)
    fact.write_text("the only copy")
    (machine.at("/opt/paddock/.store/memory") / ".paddock").mkdir()
    machine.apply("toy", state="/srv/toy")
    machine.remove("toy", state="/srv/toy")
    assert fact.exists(), "`down` of another agent deleted the state"


@as_root
@pytest.mark.parametrize("below", ["", "/memory"])
@pytest.mark.parametrize(
    "target",
    [
        "/opt/paddock",
        "/opt/paddock/toy",
        "/etc/paddock",
        "/etc/paddock/toy/x",
        "/etc",
        "/etc/ssh",
        "/usr",
        "/usr/local",
    ],
)
def test_a_link_is_refused_for_what_it_leads_to(machine: PrivateMachine, target: str, below: str) -> None:
    machine.at("/srv/link").symlink_to(target)
    if not target.startswith("/usr"):
        machine.at(target).mkdir(parents=True, exist_ok=True)
    sentence = refused(lambda: machine.apply("toy", state=f"/srv/link{below}"))
    taken = not target.startswith("/usr") and (machine.at(target + below) / ".paddock").exists()
    assert not taken, f"{target}{below} became the state"
    assert f"/srv/link{below} leads to {target}{below}, and " in sentence


@as_root
def test_adopting_takes_nothing_of_the_systems_into_a_home(machine: PrivateMachine) -> None:
    machine.at("/srv/toy").symlink_to("/etc")
    agent = adopting(machine, "toy", "/srv/toy")
    sentence = refused(agent)
    assert machine.at("/etc/passwd").exists(), "/etc was moved into /etc/home"
    assert "the system's own" in sentence


def adopting(machine: PrivateMachine, name: str, state: str) -> Callable[[], object]:
    """What `adopt` does on the machine."""
    spec = spec_of(name, state=state)

    deployment = Deployment.__new__(Deployment)
    deployment.name, deployment.spec, deployment.folder = name, spec, Path()

    class Here:
        mounts_state, keeps_machine, account_home, people = False, True, None, ()

    class Reporter:
        def say(self, text: str) -> None:
            pass

    deployment.place, deployment.reporter = Here(), Reporter()  # type: ignore[assignment]
    return lambda: deployment._claim_state(machine.guest)


@as_root
@pytest.mark.parametrize(("first", "second"), [("/srv/a", "/srv/a/b"), ("/srv/a/b", "/srv/a"), ("/srv/a", "/srv/a")])
@pytest.mark.parametrize("known_by", ["its configuration", "its trail"])
def test_another_agents_state_is_kept_apart(machine: PrivateMachine, first: str, second: str, known_by: str) -> None:
    machine.apply("wasp", state=first)
    if known_by == "its trail":
        machine.remove("wasp", state=first)
    else:
        machine.at("/var/lib/paddock/wasp").unlink()
    sentence = refused(lambda: machine.apply("toy", state=second))
    assert "the state of the agent wasp" in sentence or "state of another agent" in sentence, (
        f"{second} is the state of toy, and {first} that of wasp"
    )


@as_root
def test_another_agents_state_behind_a_link_is_kept_apart(machine: PrivateMachine) -> None:
    machine.apply("wasp", state="/srv/disk/wasp")
    machine.at("/srv/toy").symlink_to("/srv/disk/wasp/home")
    sentence = refused(lambda: machine.apply("toy", state="/srv/toy/memory"))
    assert "the state of the agent wasp" in sentence, "the state of toy is in the home of wasp"


@as_root
def test_a_state_in_a_directory_of_the_agents_own_is_refused(machine: PrivateMachine) -> None:
    """The agent could put a link in its place, and root would write the lease's holder through that."""
    machine.apply("toy", state="/srv/toy")
    machine.remove("toy", state="/srv/toy")
    mine = machine.at("/srv/mine")
    mine.mkdir()
    user = spec_of("toy").user
    os.chown(mine, user.uid, user.uid)
    machine.at("/var/lib/paddock/toy").unlink()
    sentence = refused(lambda: machine.apply("toy", state="/srv/mine/memory"))
    assert "users other than root can write to /srv/mine" in sentence, "the agent can replace its state by a link"


@as_root
def test_an_ordinary_agent_goes_up_and_down_and_up(machine: PrivateMachine) -> None:
    machine.apply("wasp")
    machine.apply("toy", state="/srv/toy")
    fact = machine.at("/srv/toy/home/fact")
    fact.write_text("kept")
    for _ in range(2):
        machine.remove("toy", state="/srv/toy")
        machine.apply("toy", state="/srv/toy")
    assert fact.read_text() == "kept"
    machine.remove("wasp")
    machine.apply("wasp")


@as_root
@pytest.mark.parametrize(
    "below", [".config/paddock/toy/memory", ".config/paddock", ".config", ".local/share/paddock/.code/x", "", ".local"]
)
def test_the_same_in_an_account_without_root(machine: PrivateMachine, below: str) -> None:
    home = "/srv/me"
    machine.at(home).mkdir()
    path = f"{home}/{below}".rstrip("/")
    sentence = refused(lambda: machine.apply("toy", home=home, state=path))
    assert "is Paddock's own" in sentence, f"`down` would delete from {path}"
    machine.apply("toy", home=home)
    fact = machine.at(f"{home}/.local/share/paddock/toy/state/home/fact")
    fact.write_text("kept")
    machine.remove("toy", home=home)
    assert fact.exists()


# Without root


@pytest.mark.parametrize("below", ["toy/etc/memory", "toy", "", ".code/memory", "wasp/etc", "wasp/state/home/x"])
def test_a_process_has_its_state_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    process("wasp", None)
    path = (tmp_path / "data/paddock" / below) if below else tmp_path / "data/paddock"
    sentence = refused(lambda: process("toy", str(path)))
    assert "is Paddock's own" in sentence or "the state of the agent wasp" in sentence, f"the state is {path}"


@pytest.mark.parametrize("below", ["toy/etc/memory", ".code/toy/memory"])
def test_down_spares_the_state_of_a_process_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    runtime = process("toy", None)
    fact = tmp_path / "paddock" / below / "home/fact"
    for folder in (fact.parent, fact.parents[1] / ".paddock"):
        folder.mkdir(parents=True)
    fact.write_text("the only copy")
    refused(lambda: expect(LocalGuest(), "removing", runtime.remove()))
    assert fact.exists(), "`down` deleted the state"


def process(name: str, state: str | None) -> ForegroundProcess:
    spec = spec_of(name, state=state, runtime="process")
    runtime = ForegroundProcess(name, spec)
    workload = recipe_for(spec.kind).workload(spec, runtime.paths, "")
    bundle = runtime.bundle(workload, None, mounted=False)
    expect(LocalGuest(), "applying", runtime.apply(bundle.id), stdin=bundle.archive({}, {}))
    return runtime
