"""`down` deletes no state inside Paddock's own folders, and none that contains another agent's state."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from hostile.ground import Machine, as_root
from hostile.private_machine import PrivateMachine, spec_of
from paddock.base.errors import BadInput
from paddock.base.process import CommandFailed
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import ask
from paddock.core.deployment import Deployment
from paddock.core.on_machine import OnMachine, claim_state
from paddock.core.resolve import locate
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import HostSpec
from paddock.kinds import KINDS, parse
from paddock.places.contract import AnyPlace
from paddock.places.host.place import HostPlace
from paddock.runtimes.process.runtime import ForegroundProcess
from paddock.runtimes.systemd.runtime import Systemd
from paddock.show.reporter import Reporter


@pytest.fixture
def machine(ground: Machine) -> PrivateMachine:
    return PrivateMachine(ground)


def refused(what: Callable[[], object]) -> str:
    """Return the message with which a script on the machine fails, or an empty text if it succeeds."""
    try:
        what()
    except CommandFailed as failure:
        return str(failure)
    return ""


# The validator rejects such paths

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
            **({} if host else {"user": {"name": name, "uid": 10000 + number}}),  # an account is all agents' own
        }
        for number, (name, path) in enumerate(states.items())
    }
    try:
        return (
            parse(json.dumps({"project": "home", "places": {"here": {"host": host}}, "agents": agents}), "paddock.yaml")
            is not None
        )
    except BadInput:
        return False


@pytest.mark.parametrize("host", [{}, {"scope": "user"}], ids=["root", "an account"])
@pytest.mark.parametrize("path", OWN)
def test_the_validator_rejects_a_state_inside_or_above_paddocks_own_folders(path: str, host: dict[str, Any]) -> None:
    assert not accepted(host, toy=path), f"`down` would delete from {path}"


@pytest.mark.parametrize(("one", "two"), [("/srv/a", "/srv/a/b"), ("/srv/a/b", "/srv/a"), ("/srv/a", "/srv/./a")])
@pytest.mark.parametrize("host", [{}, {"scope": "user"}], ids=["root", "an account"])
def test_the_validator_rejects_a_state_inside_or_above_another_state(one: str, two: str, host: dict[str, Any]) -> None:
    assert not accepted(host, one=one, two=two)


@pytest.mark.parametrize(
    "path", ["/srv/toy", "/var/lib/paddock/toy", "/var/lib/toy", "/home/toy", "/home/me/.config/toy"]
)
def test_the_validator_accepts_other_state_paths(path: str) -> None:
    assert accepted({}, toy=path)
    assert accepted({"scope": "user"}, toy=path)


# The scripts on the machine reject such paths


@as_root
@pytest.mark.parametrize("path", ["/opt/paddock/home_toy/memory", "/etc/paddock/home_toy/memory"])
def test_down_does_not_delete_a_state_below_paddocks_own_folders(machine: PrivateMachine, path: str) -> None:
    sentence = refused(lambda: machine.apply("toy", state=path))
    fact = machine.at(path) / "home/fact"
    fact.parent.mkdir(parents=True, exist_ok=True)
    fact.write_text("the only copy")
    refused(lambda: machine.remove("toy", state=path))
    assert fact.exists() or sentence, f"`up` put the state into {path}, and `down` deleted it"
    assert "Paddock's own" in sentence or "the system's own" in sentence


@as_root
@pytest.mark.parametrize(
    "path", ["/opt/paddock/home_toy/memory", "/etc/paddock/home_toy/memory", "/etc/paddock", "/opt/paddock"]
)
def test_down_keeps_a_state_that_an_earlier_version_put_into_such_a_folder(machine: PrivateMachine, path: str) -> None:
    machine.apply("toy", state="/srv/toy")
    machine.at("/srv/toy").rename(machine.at("/srv/moved"))
    machine.at(path).parent.mkdir(parents=True, exist_ok=True)
    machine.run("sh", "-c", 'mkdir -p "$1" && cp -a /srv/moved/. "$1"', "sh", path)
    fact = machine.at(path) / "home/fact"
    fact.write_text("the only copy")
    machine.at("/opt/paddock/home_toy").mkdir(parents=True, exist_ok=True)
    sentence = refused(lambda: machine.remove("toy", state=path))
    assert fact.exists(), f"`down` deleted the state in {path}"
    assert "holds the state of an agent" in sentence
    lease = Systemd(AgentId("home", "toy"), spec_of("toy")).unit("lease")
    assert machine.at(f"/etc/systemd/system/{lease}").is_symlink(), "`down` removed a unit before it failed"


@as_root
@pytest.mark.parametrize("memory", ["/etc/paddock/home_toy/memory", "/opt/paddock/home_toy/memory"])
def test_down_checks_for_a_state_right_before_it_deletes(machine: PrivateMachine, memory: str) -> None:
    machine.apply("toy", state="/srv/toy")
    arrives = f"mkdir -p {memory}/.paddock {memory}/home; touch {memory}/home/fact"
    machine.ground.stub("systemctl", f"case $1 in stop) {arrives} ;; esac")
    refused(lambda: machine.remove("toy", state="/srv/toy"))
    assert machine.at(f"{memory}/home/fact").exists(), "`down` deleted a state created while the agent stopped"


@as_root
def test_pruning_code_trees_keeps_a_state_in_the_store(machine: PrivateMachine) -> None:
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
def test_a_state_path_that_links_to_a_forbidden_folder_is_refused(
    machine: PrivateMachine, target: str, below: str
) -> None:
    machine.at("/srv/link").symlink_to(target)
    if not target.startswith("/usr"):
        machine.at(target).mkdir(parents=True, exist_ok=True)
    sentence = refused(lambda: machine.apply("toy", state=f"/srv/link{below}"))
    taken = not target.startswith("/usr") and (machine.at(target + below) / ".paddock").exists()
    assert not taken, f"{target}{below} became the state"
    assert f"/srv/link{below} leads to {target}{below}, and " in sentence


@as_root
def test_adopt_does_not_move_system_files_into_a_home(machine: PrivateMachine) -> None:
    machine.at("/srv/toy").symlink_to("/etc")
    agent = adopting(machine, "toy", "/srv/toy")
    sentence = refused(agent)
    assert machine.at("/etc/passwd").exists(), "/etc was moved into /etc/home"
    assert "the system's own" in sentence


def adopting(machine: PrivateMachine, name: str, state: str) -> Callable[[], object]:
    """Return a call that runs the script of `adopt`."""
    spec = spec_of(name, state=state)

    place = cast("AnyPlace", HostPlace("here", HostSpec(), Path()))
    recipe, reporter = KINDS[spec.kind], Reporter().of(name)
    agent = locate(
        Deployment(
            project="home",
            name=name,
            spec=spec,
            folder=Path(),
            place=place,
            recipe=recipe,
            reporter=reporter,
            machine_side=OnMachine(),
        )
    )
    return lambda: claim_state(agent, machine.guest)


@as_root
@pytest.mark.parametrize(("first", "second"), [("/srv/a", "/srv/a/b"), ("/srv/a/b", "/srv/a"), ("/srv/a", "/srv/a")])
@pytest.mark.parametrize("known_by", ["its configuration", "its state link"])
def test_a_state_inside_or_above_another_agents_state_is_refused(
    machine: PrivateMachine, first: str, second: str, known_by: str
) -> None:
    machine.apply("wasp", state=first)
    if known_by == "its state link":
        machine.remove("wasp", state=first)
    else:
        machine.at("/var/lib/paddock/.agents/home_wasp").unlink()
    sentence = refused(lambda: machine.apply("toy", state=second))
    assert "the state of wasp of project home" in sentence or "state of another agent" in sentence, (
        f"{second} became the state of toy, while {first} is the state of wasp"
    )


@as_root
def test_a_state_that_links_into_another_agents_state_is_refused(machine: PrivateMachine) -> None:
    machine.apply("wasp", state="/srv/disk/wasp")
    machine.at("/srv/toy").symlink_to("/srv/disk/wasp/home")
    sentence = refused(lambda: machine.apply("toy", state="/srv/toy/memory"))
    assert "the state of wasp of project home" in sentence, "the state of toy is in the home of wasp"


@as_root
def test_a_state_in_a_directory_of_the_agents_own_is_refused(machine: PrivateMachine) -> None:
    """The agent could replace the state by a link, and root would write the holder of the lease through it."""
    machine.apply("toy", state="/srv/toy")
    machine.remove("toy", state="/srv/toy")
    mine = machine.at("/srv/mine")
    mine.mkdir()
    user = spec_of("toy").user
    os.chown(mine, user.uid, user.uid)
    machine.at("/var/lib/paddock/.agents/home_toy").unlink()
    sentence = refused(lambda: machine.apply("toy", state="/srv/mine/memory"))
    assert "users other than root can write to /srv/mine" in sentence, "the agent can replace its state by a link"


@as_root
def test_an_agent_keeps_its_state_through_down_and_up(machine: PrivateMachine) -> None:
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
    "below",
    [
        ".config/paddock/home_toy/memory",
        ".config/paddock",
        ".config",
        ".local/share/paddock/.agents/x",
        ".local/share/paddock/.code/x",
        "",
        ".local",
    ],
)
def test_without_root_a_state_inside_or_above_paddocks_own_folders_is_refused(
    machine: PrivateMachine, below: str
) -> None:
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


# The same for the runtime `process`


@pytest.mark.parametrize(
    "below",
    ["home_toy/etc/memory", "home_toy", "toy", "", ".code/memory", "home_wasp/etc", "wasp/etc", "wasp/state/home/x"],
)
def test_with_runtime_process_a_state_inside_or_above_paddocks_folders_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    process("wasp", None)
    path = (tmp_path / "data/paddock" / below) if below else tmp_path / "data/paddock"
    sentence = refused(lambda: process("toy", str(path)))
    assert "is Paddock's own" in sentence or "the state of wasp of project home" in sentence, f"the state is {path}"


@pytest.mark.parametrize("below", ["home_toy/etc/memory", ".code/home_toy/memory"])
def test_with_runtime_process_down_keeps_a_state_in_such_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    runtime = process("toy", None)
    fact = tmp_path / "paddock" / below / "home/fact"
    for folder in (fact.parent, fact.parents[1] / ".paddock"):
        folder.mkdir(parents=True)
    fact.write_text("the only copy")
    assert "holds the state of an agent" in refused(lambda: ask(LocalGuest(), "removing", runtime.remove()))
    assert fact.exists(), "`down` deleted the state"


def process(name: str, state: str | None) -> ForegroundProcess:
    spec = spec_of(name, state=state, runtime="process")
    runtime = ForegroundProcess(AgentId("home", name), spec)
    workload = KINDS[spec.kind].workload(spec, runtime.paths, "")
    bundle = runtime.bundle(workload, None, mounted=False)
    ask(LocalGuest(), "applying", runtime.apply(bundle.sent({}, {})))
    return runtime
