"""Moving an agent to a project: its memory stays, wherever the rename is killed, and nothing of others is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from hostile import agents
from hostile.ground import Machine, as_root
from hostile.stubs import DOCKER, SYSTEMCTL
from killed_script import killed_at
from levels import by_level
from paddock.base.process import Result
from paddock.channels.onboard import sent
from paddock.file.agent_id import AgentId
from paddock.runtimes.contract import Runtime
from paddock.runtimes.engine.runtime import Engine
from paddock.runtimes.systemd.runtime import Systemd

pytestmark = as_root

V1: Final = AgentId("", "bee")
_STRIDE: Final = by_level(20, 1)

# Everything that Paddock has on the machine, but not the state.
PARTS: Final = "/etc/paddock /opt/paddock /etc/systemd/system /usr/local/bin /srv/containers /run"
MEMORY: Final = 'cd "$1/home" && find . -printf "%p %U:%G %m %l\\n" | sort && find . -type f -exec cat {} +'


def moving(engine: str, **more: Any) -> Systemd | Engine:
    """The agent in its project, which Paddock 0.1 deployed without one."""
    made = agents.docker(**more) if engine == "docker" else agents.systemd(**more)
    return type(made)(**{**vars(made), "formers": (V1,)})


@pytest.fixture(params=["systemd", "docker"])
def runtime(request: pytest.FixtureRequest) -> Systemd | Engine:
    return moving(request.param)


def deploy_v1(ground: Machine, runtime: Systemd | Engine) -> None:
    """Deploy an agent as Paddock 0.1 did, with a memory."""
    former = type(runtime)(**{**vars(runtime), "agent": V1, "formers": ()})
    ground.stub("systemctl", SYSTEMCTL)
    ground.stub("docker", DOCKER)
    if isinstance(former, Engine):
        agents.created(ground, former)
        ground.root("sed -i /^paddock.agent=/d /srv/containers/paddock-bee")
    agents.installed(ground, former)
    ground.agent('cd "$1" && mkdir deep && echo learned >deep/notes && ln -s /etc/canary link', former.paths.home)
    ground.root(
        """rm -r /var/lib/paddock/.agents && sed -i '/^version=/d; s/^id=.*/id=5bf0/' "$1/.paddock/identity"
        mkdir -p /opt/paddock/.store/t1 /opt/paddock/bee && touch /opt/paddock/.store/t1/manifest
        ln -s ../.store/t1 /opt/paddock/bee/t1 && ln -s t1 /opt/paddock/bee/current""",
        former.paths.state,
    )


def rename(ground: Machine, runtime: Runtime, at: int = 0, former: str = "bee") -> Result:
    """Make the request of the step. With ``at``, kill it before the changing system call of that number."""
    request = runtime.rename(former, mounted=False)
    if not at:
        return ground.ask(request).result
    argv, stdin = sent(request)
    return ground.run(killed_at(at, argv, "/tmp/count"), stdin=stdin)


def expect_renamed(ground: Machine, runtime: Systemd | Engine, generated: str) -> None:
    assert ground.read(f"{runtime.paths.state}/.paddock/identity") == "version=2\nagent=home_bee\nid=5bf0\n"
    assert ground.root('readlink "$1"', runtime.paths.state_link).strip() == runtime.paths.state
    assert ground.read("/etc/paddock/home_bee/generated.env") == generated
    assert ground.root("cd /opt/paddock/home_bee && readlink current t1").split() == ["t1", "../.store/t1"]
    left = ground.root("find /etc/paddock /opt/paddock /etc/systemd/system -name bee -o -type l -name 'paddock-bee*'")
    assert not left.split()
    assert not ground.root("ls /run | grep active-paddock-bee || true")
    if runtime.container:
        assert ground.root("ls /srv/containers").split() == ["paddock-home_bee"]


def test_a_rename_keeps_the_memory_wherever_it_is_killed(ground: Machine, runtime: Systemd | Engine) -> None:
    deploy_v1(ground, runtime)
    memory, generated = ground.root(MEMORY, runtime.paths.state), ground.read("/etc/paddock/bee/generated.env")
    seen = agents.seen(ground, runtime)
    assert (seen.installed, seen.namesakes.former, seen.namesakes.state_of_former) == (False, "bee", "bee")
    assert set(seen.namesakes.units.values()) == {"active"}
    ground.root(f"tar -cf /tmp/before.tar {PARTS} /var/lib/paddock 2>/dev/null")
    assert rename(ground, runtime, at=100_000).ok
    calls = int(ground.read("/tmp/count"))
    expect_renamed(ground, runtime, generated)
    assert calls > 60
    for at in range(1, calls + 1, _STRIDE):
        ground.root("rm -rf /etc/paddock /opt/paddock /etc/systemd/system/paddock-* /srv/containers /var/lib/paddock")
        ground.root("rm -f /run/active-*; tar -xf /tmp/before.tar -C / 2>/dev/null")
        assert not rename(ground, runtime, at).ok
        where = f"killed at call {at} of {calls}"
        assert ground.root(MEMORY, runtime.paths.state) == memory, where
        seen = agents.seen(ground, runtime)
        if seen.namesakes.to_rename:
            again = rename(ground, runtime)
            assert again.ok, f"{where}: {again.err}"
        expect_renamed(ground, runtime, generated)
        assert ground.root(MEMORY, runtime.paths.state) == memory, where


def test_after_the_rename_the_agent_is_applied_and_runs_once(ground: Machine, runtime: Systemd | Engine) -> None:
    deploy_v1(ground, runtime)
    memory = ground.root(MEMORY, runtime.paths.state)
    assert rename(ground, runtime).ok
    if isinstance(runtime, Engine):
        agents.created(ground, runtime, replaces=True)
    agents.installed(ground, runtime)
    units = ground.root("cd /run && ls | sed -n 's/^active-paddock-//p'").split()
    assert {unit.partition(".")[0] for unit in units} == {"home_bee"}
    assert ground.root(MEMORY, runtime.paths.state) == memory
    seen = agents.seen(ground, runtime)
    assert (seen.installed, seen.namesakes.to_rename, seen.has_own_state) == (True, None, True)


@pytest.mark.parametrize("make", [agents.systemd, agents.docker])
def test_another_name_keeps_the_memory_wherever_the_rename_is_killed(
    ground: Machine, make: Callable[..., Systemd | Engine]
) -> None:
    former = make("wasp")
    state = former.paths.state
    renamed = make("bee", state={"path": state})
    runtime = type(renamed)(**{**vars(renamed), "formers": (former.agent,)})
    ground.stub("systemctl", SYSTEMCTL)
    ground.stub("docker", DOCKER)
    if isinstance(former, Engine):
        agents.created(ground, former)
    agents.installed(ground, former)
    ground.agent('echo learned >"$1/notes"', former.paths.home)
    ground.root("mkdir -p /opt/paddock /srv/containers")
    memory, generated = ground.root(MEMORY, state), ground.read("/etc/paddock/home_wasp/generated.env")
    uuid = ground.root('sed -n s/^id=//p "$1/.paddock/identity"', state)
    ground.root(f"tar -cf /tmp/before.tar {PARTS} /var/lib/paddock 2>/dev/null")
    calls = 0
    for at in (100_000, *range(1, 1000, _STRIDE)):
        if calls and at > calls:
            break
        ground.root("rm -rf /etc/paddock /opt/paddock /etc/systemd/system/paddock-* /srv/containers /var/lib/paddock")
        ground.root("rm -f /run/active-*; tar -xf /tmp/before.tar -C / 2>/dev/null")
        assert rename(ground, runtime, at, "home_wasp").ok == (at == 100_000)
        calls = calls or int(ground.read("/tmp/count"))
        assert ground.root(MEMORY, state) == memory
        if agents.seen(ground, runtime).namesakes.to_rename:
            again = rename(ground, runtime, former="home_wasp")
            assert again.ok, f"killed at call {at}: {again.err}"
        assert ground.read(f"{state}/.paddock/identity") == f"version=2\nagent=home_bee\nid={uuid}"
        assert ground.read("/etc/paddock/home_bee/generated.env") == generated
        assert ground.root('readlink "$1"', runtime.paths.state_link).strip() == state
        assert not ground.root("ls -d /etc/paddock/home_wasp 2>/dev/null || true")
        assert not ground.root("find /etc/systemd /opt /var/lib/paddock /srv/containers -name '*home_wasp*'").split()
        assert ground.root(MEMORY, state) == memory


def test_a_renamed_container_gives_way_to_that_of_the_new_name(ground: Machine) -> None:
    former, renamed = agents.docker("wasp"), agents.docker("bee", state={"path": agents.docker("wasp").paths.state})
    runtime = type(renamed)(**{**vars(renamed), "formers": (former.agent,)})
    ground.stub("systemctl", SYSTEMCTL)
    ground.stub("docker", DOCKER)
    agents.created(ground, former)
    agents.installed(ground, former)
    ground.root("mkdir -p /opt/paddock")
    assert rename(ground, runtime, former="home_wasp").ok
    # A run that is killed now leaves the container of the former name under the new one.
    assert agents.seen(ground, runtime).container.ours
    assert not agents.seen(ground, renamed).container.ours, "without its former name it belongs to someone else"
    agents.created(ground, runtime, replaces=True)
    assert ground.root("ls /srv/containers").split() == ["paddock-home_bee"]
    assert "paddock.agent=home_bee\n" in ground.read("/srv/containers/paddock-home_bee")
    assert agents.seen(ground, renamed).container.ours


def test_nothing_stops_before_the_state_is_known_to_be_the_agents(ground: Machine, runtime: Systemd | Engine) -> None:
    deploy_v1(ground, runtime)
    identity = f"{runtime.paths.state}/.paddock/identity"
    for text in ("agent=wasp\nid=1\n", "version=3\nagent=bee\nid=1\n"):
        ground.root('printf "$2" >"$1"', identity, text.replace("\n", "\\n"))
        before = ground.calls
        assert not rename(ground, runtime).ok
        stops = [call for call in ground.calls[len(before) :] if "stop" in call or "rename" in call]
        assert not stops
        assert ground.read(identity) == text
    assert ground.exists("/etc/systemd/system/paddock-bee.lease.service")


def test_a_directory_that_the_agent_planted_is_not_taken_for_a_former_state(ground: Machine) -> None:
    """The identity counts only in a directory of root that nobody else can enter."""
    runtime = moving("systemd")
    ground.root('mkdir -p "$1" && chown 54399:54399 "$1"', runtime.paths.state)
    ground.agent('mkdir -m 700 "$1/.paddock" && echo agent=bee >"$1/.paddock/identity"', runtime.paths.state)
    seen = agents.seen(ground, runtime)
    assert (seen.namesakes.to_rename, seen.state_of) == (None, None)
    assert seen.planted
    assert not rename(ground, runtime).ok


def test_another_agent_of_the_name_is_left_alone(ground: Machine) -> None:
    spec = agents.spec(user={"name": "other", "uid": 54400}, state={"path": "/srv/lab"})
    other = Systemd(AgentId("lab", "bee"), spec)
    agents.installed(ground, other)
    runtime = moving("systemd")
    seen = agents.seen(ground, runtime)
    assert seen.namesakes.others == {"lab_bee"}
    assert (seen.namesakes.to_rename, seen.installed) == (None, False)
    assert ground.ask(runtime.remove()).result.ok
    assert ground.exists("/etc/systemd/system/paddock-lab_bee.lease.service")
    agents.installed(ground, runtime)
    assert ground.read("/srv/lab/.paddock/identity").split("\n")[1] == "agent=lab_bee"


def test_an_agent_cannot_have_the_state_of_its_namesake(ground: Machine) -> None:
    other = Systemd(AgentId("lab", "bee"), agents.spec(user={"name": "other", "uid": 54400}))
    agents.installed(ground, other)
    refused = agents.apply(ground, agents.systemd())
    assert refused.code == 78
    assert "the state of bee of project lab" in refused.err
