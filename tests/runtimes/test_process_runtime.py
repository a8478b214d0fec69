"""The process runtime for real, with a toy workload: applied, observed, supervised, removed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from paddock.base.process import CommandFailed
from paddock.base.secret import Secret
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import ask
from paddock.file.agent_id import AgentId
from paddock.file.models.whole import StateSpec
from paddock.kinds.service import ServiceSpec
from paddock.kinds.workload import File, Process, Workload
from paddock.onboard.program.refusal import FORMER
from paddock.onboard.state.claim import DeleteState
from paddock.plan.agent import AgentSeen
from paddock.runtimes.bundle import Bundle
from paddock.runtimes.contract import Runtime
from paddock.runtimes.process import supervise
from paddock.runtimes.process.runtime import ForegroundProcess

TOY = ServiceSpec.model_validate({"kind": "service", "place": "here", "command": ["true"]})
RUNTIME = ForegroundProcess(AgentId("home", "toy"), TOY)
GUEST = LocalGuest()


def toy(
    script: str = "exec sleep 60",
    fatal: tuple[int, ...] = (),
    restart: str = "always",
    tree: str | None = None,
    runtime: Runtime = RUNTIME,
) -> Bundle:
    home = runtime.paths.home
    process = Process(
        "main",
        ("sh", "-c", script),
        {"HOME": home},
        home,
        stop_seconds=5,
        fatal_exits=fatal,
        restart=restart,
        restart_seconds=0.5,
    )
    workload = Workload((process,), (File("note", "hello\n"),), ("work",), ("TOKEN",))
    return runtime.bundle(workload, tree, mounted=False)


def apply(bundle: Bundle, runtime: Runtime = RUNTIME, **secrets: str) -> None:
    ask(GUEST, "applying", runtime.apply(bundle.sent({name: Secret(value) for name, value in secrets.items()}, {})))


def observe() -> AgentSeen:
    # How full the disk is changes by itself.
    return replace(ask(GUEST, "observing", RUNTIME.observe(()), into=AgentSeen), room=None)


@contextmanager
def supervised(log: Path, runtime: Runtime = RUNTIME) -> Iterator[subprocess.Popen[str]]:
    """`paddock run` without the deployment around it."""
    program = (
        "from pathlib import Path\n"
        "from paddock.kinds.workload import Paths\n"
        "from paddock.runtimes.process.supervise import supervise\n"
        f"supervise({runtime.paths!r}, Path({str(log)!r}), print)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_observe_reports_nothing_on_an_empty_machine() -> None:
    seen = observe()
    assert not seen.installed
    assert (seen.state_of, seen.trees) == (None, frozenset())


def test_applying_a_bundle_twice_changes_nothing() -> None:
    bundle = toy()
    apply(bundle, KEY="canary")
    first = observe()
    apply(bundle, KEY="canary")
    assert observe() == first
    assert (first.bundle_id, first.state_of) == (bundle.id, "home_toy")
    etc = Path(RUNTIME.paths.etc)
    assert (etc / "note").read_text() == "hello\n"
    assert (etc.parent / "secrets.env").stat().st_mode & 0o777 == 0o400
    assert (Path(RUNTIME.paths.home) / "work").is_dir()


def test_a_generated_secret_is_made_once() -> None:
    apply(toy())
    file = Path(RUNTIME.paths.etc).parent / "generated.env"
    before = file.read_text()
    apply(toy("exec sleep 61"))
    assert file.read_text() == before
    assert before.startswith("TOKEN=")
    assert len(before.strip()) == len("TOKEN=") + 64


def test_apply_keeps_the_current_and_the_previous_bundle_only() -> None:
    bundles = [toy(f"exec sleep {n}") for n in (60, 61, 62)]
    for bundle in bundles:
        apply(bundle)
    root = Path(RUNTIME.paths.etc).parent
    assert not (root / bundles[0].id).exists()
    assert (root / "current").readlink().name == bundles[2].id
    assert (root / "previous").readlink().name == bundles[1].id


def installed(*trees: str, agent: str = "") -> Path:
    """Create code trees as their installation does; return the folder with the agents' links to them."""
    store = Path(RUNTIME.paths.code)
    for tree in trees:
        (store / tree).mkdir(parents=True)
        (store / tree / "manifest").touch()
        if agent:
            (store.parent / agent).mkdir(exist_ok=True)
            (store.parent / agent / tree).symlink_to(f"../.store/{tree}")
    return store.parent


def test_apply_keeps_the_current_and_the_previous_code_tree_only() -> None:
    versions = installed("t1", "t2", "t3") / "home_toy"
    store = versions.parent / ".store"
    apply(toy(tree="t1"))
    assert sorted(path.name for path in store.iterdir()) == ["t1"], "nobody needs the others"
    installed("t2", "t3", agent="other")
    apply(toy(tree="t2"))
    apply(toy("exec sleep 61", tree="t2"))
    assert ((versions / "current").readlink().name, (versions / "previous").readlink().name) == ("t2", "t1")
    assert (versions / "current/manifest").exists()
    apply(toy(tree="t3"))
    assert sorted(path.name for path in versions.iterdir()) == ["current", "previous", "t2", "t3"]
    assert sorted(path.name for path in store.iterdir()) == ["t2", "t3"]
    assert observe().trees == {"t2", "t3"}


def test_remove_keeps_a_code_tree_that_another_agent_needs() -> None:
    folder = installed("t1", agent="other")
    installed("t2")
    apply(toy(tree="t1"))
    ask(GUEST, "removing", RUNTIME.remove())
    assert sorted(path.name for path in folder.iterdir()) == [".store", "other"]
    assert (folder / "other/t1/manifest").exists()


def test_apply_names_a_code_tree_that_was_removed() -> None:
    with pytest.raises(CommandFailed, match="another run has removed the code t1"):
        apply(toy(tree="t1"))


def elsewhere(path: Path) -> ForegroundProcess:
    state = StateSpec().model_copy(update={"path": str(path)})  # a file could not put it below /tmp
    return ForegroundProcess(AgentId("home", "toy"), TOY.model_copy(update={"state": state}))


def test_a_state_at_another_path_is_found_through_its_link(tmp_path: Path) -> None:
    moved = elsewhere(tmp_path / "srv/toy")
    apply(toy(runtime=moved), runtime=moved)
    assert (tmp_path / "srv/toy/home/work").is_dir()
    assert (observe().state_of, observe().state_at) == ("home_toy", str(tmp_path / "srv/toy"))
    for other in (RUNTIME, elsewhere(tmp_path / "third")):
        with pytest.raises(CommandFailed, match="srv/toy, not "):
            apply(toy(runtime=other), runtime=other)
    assert not (tmp_path / "third").exists()


def test_apply_accepts_a_state_that_a_person_has_moved(tmp_path: Path) -> None:
    apply(toy())
    (Path(RUNTIME.paths.home) / "work/fact").write_text("7421")
    Path(RUNTIME.paths.state).rename(tmp_path / "moved")
    there = elsewhere(tmp_path / "moved")
    apply(toy(runtime=there), runtime=there)
    (tmp_path / "moved").rename(tmp_path / "again")
    there = elsewhere(tmp_path / "again")
    apply(toy(runtime=there), runtime=there)
    assert observe().state_at == str(tmp_path / "again")
    assert (tmp_path / "again/home/work/fact").read_text() == "7421"


def test_forget_deletes_the_link_to_the_state(tmp_path: Path) -> None:
    moved = elsewhere(tmp_path / "srv")
    apply(toy(runtime=moved), runtime=moved)
    ask(GUEST, "removing", moved.remove())
    ask(GUEST, "forgetting", DeleteState(moved.deployed))
    assert not Path(moved.paths.state_link).is_symlink()
    assert not (tmp_path / "srv").exists()


def test_apply_refuses_the_state_of_another_agent() -> None:
    identity = Path(RUNTIME.paths.state) / ".paddock/identity"
    identity.parent.mkdir(parents=True, mode=0o700)
    identity.write_text("version=2\nagent=lab_toy\nid=1\n")
    with pytest.raises(CommandFailed, match="is the state of another agent: toy of project lab"):
        apply(toy())
    assert identity.read_text() == "version=2\nagent=lab_toy\nid=1\n"


def test_a_state_of_a_newer_paddock_is_reported_and_left_alone() -> None:
    apply(toy())
    identity = Path(RUNTIME.paths.state) / ".paddock/identity"
    identity.write_text("version=3\nagent=home_toy\nid=1\n")
    assert observe().state_version == "3"
    with pytest.raises(CommandFailed, match="a newer Paddock wrote"):
        apply(toy("exec sleep 61"))
    ask(GUEST, "removing", RUNTIME.remove())
    with pytest.raises(CommandFailed, match="a newer Paddock wrote"):
        ask(GUEST, "forgetting", DeleteState(RUNTIME.deployed))
    assert identity.read_text() == "version=3\nagent=home_toy\nid=1\n"


# An agent that has a former id

V1 = AgentId("", "toy")
MOVING = ForegroundProcess(AgentId("home", "toy"), TOY, (V1,))


@pytest.fixture
def former(request: pytest.FixtureRequest, tmp_path: Path) -> Runtime:
    """An agent as Paddock 0.1 deployed it, with a memory and a code tree; also with its state at another path."""
    state = tmp_path / "srv/toy" if getattr(request, "param", "") == "elsewhere" else None
    installed("t1")
    runtime = replace(elsewhere(state), agent=V1) if state else ForegroundProcess(V1, TOY)
    bundle = toy(runtime=runtime, tree="t1")
    apply(bundle, runtime=runtime, KEY="canary")
    paths = runtime.paths
    (Path(paths.home) / "work/fact").write_text("7421")
    (Path(paths.state) / ".paddock/identity").write_text("agent=toy\nid=5bf0\n")
    Path(paths.state_link).unlink()
    Path(paths.state_link).parent.rmdir()
    if state:
        old = Path(MOVING.paths.state)
        old.parent.mkdir(parents=True, exist_ok=True)
        old.symlink_to(state)
    return runtime


def moving_to(former: Runtime) -> ForegroundProcess:
    return replace(MOVING, spec=former.spec)  # type: ignore[attr-defined]


def observed(runtime: Runtime) -> AgentSeen:
    return ask(GUEST, "observing", runtime.observe(()), into=AgentSeen)


@pytest.mark.parametrize("former", ["default", "elsewhere"], indirect=True)
def test_an_agent_of_paddock_0_1_is_observed_under_its_former_id(former: Runtime) -> None:
    seen = observed(moving_to(former))
    assert (seen.installed, seen.namesakes.former, seen.namesakes.state_of_former) == (False, "toy", "toy")
    assert seen.state_at == former.paths.state
    assert seen.namesakes.others == frozenset()


@pytest.mark.parametrize("former", ["default", "elsewhere"], indirect=True)
def test_a_rename_keeps_state_secrets_and_code(former: Runtime) -> None:
    new = moving_to(former)
    old = Path(former.paths.etc).parent
    kept = {name: (old / name).read_text() for name in ("generated.env", "secrets.env")}
    for _ in range(2):
        ask(GUEST, "renaming", new.rename("toy", mounted=False))
        seen = observed(new)
        assert (seen.namesakes.to_rename, seen.pending) == (None, True)
        assert (seen.state_of, seen.state_at) == ("home_toy", former.paths.state)
        assert (Path(new.paths.state) / ".paddock/identity").read_text() == "version=2\nagent=home_toy\nid=5bf0\n"
        root = Path(new.paths.etc).parent
        assert {name: (root / name).read_text() for name in kept} == kept
        assert not old.exists()
        assert not Path(MOVING.paths.state).is_symlink()
        assert (Path(new.paths.code).parent / "home_toy/current").readlink().name == "t1"
        assert not (Path(new.paths.code).parent / "toy").exists()
    apply(toy(runtime=new, tree="t1"), runtime=new, KEY="canary")
    assert (root / "generated.env").read_text() == kept["generated.env"]
    assert (Path(new.paths.home) / "work/fact").read_text() == "7421"


def test_apply_refuses_while_the_agent_has_a_former_id(former: Runtime) -> None:
    with pytest.raises(CommandFailed, match="this machine has toy, which has no project") as refused:
        apply(toy(runtime=MOVING), runtime=MOVING)
    assert refused.value.result.code == FORMER
    assert not Path(MOVING.paths.etc).parent.exists(), "a secret was left behind"


def test_a_rename_refuses_a_running_agent_and_changes_nothing(former: Runtime, tmp_path: Path) -> None:
    with supervised(tmp_path / "log", former) as running:
        wait_for(lambda: (tmp_path / "log").exists())
        with pytest.raises(CommandFailed, match=f"the state is held by process {running.pid}"):
            ask(GUEST, "renaming", MOVING.rename("toy", mounted=False))
    assert (Path(former.paths.state) / ".paddock/identity").read_text() == "agent=toy\nid=5bf0\n"
    assert observed(MOVING).namesakes.former == "toy"


def test_a_rename_refuses_the_state_of_another_agent(former: Runtime) -> None:
    (Path(former.paths.state) / ".paddock/identity").write_text("version=2\nagent=lab_toy\nid=1\n")
    with pytest.raises(CommandFailed, match="is the state of another agent: toy of project lab"):
        ask(GUEST, "renaming", MOVING.rename("toy", mounted=False))
    assert Path(former.paths.etc).exists()


def test_an_agent_of_another_project_is_observed() -> None:
    lab = ForegroundProcess(AgentId("lab", "toy"), TOY)
    apply(toy(runtime=lab), runtime=lab)
    ForegroundProcess(AgentId("lab", "toys"), TOY)
    seen = observed(MOVING)
    assert seen.namesakes.others == {"lab_toy"}
    assert seen.namesakes.state_of_other == "lab_toy"
    ask(GUEST, "removing", lab.remove())
    assert observed(MOVING).namesakes.others == {"lab_toy"}, "its state is still there"


def test_the_link_to_the_state_is_beside_the_states(tmp_path: Path) -> None:
    apply(toy())
    link = Path(RUNTIME.paths.state_link)
    assert (link.parent.name, link.name) == (".agents", "home_toy")
    assert str(link.readlink()) == RUNTIME.paths.state


def test_apply_refuses_a_directory_with_files_and_no_mark() -> None:
    state = Path(RUNTIME.paths.state)
    state.mkdir(parents=True)
    (state / "diary").write_text("dear")
    with pytest.raises(CommandFailed, match="holds files but no mark"):
        apply(toy())
    assert [path.name for path in state.iterdir()] == ["diary"]


def test_apply_completes_an_interrupted_claim() -> None:
    (Path(RUNTIME.paths.state) / ".paddock").mkdir(parents=True, mode=0o700)
    apply(toy())
    assert observe().state_of == "home_toy"


def test_remove_keeps_the_state() -> None:
    apply(toy())
    paths = RUNTIME.paths
    (Path(paths.home) / "work/fact").write_text("7421")
    ask(GUEST, "removing", RUNTIME.remove())
    assert not observe().installed
    assert (Path(paths.home) / "work/fact").read_text() == "7421"


def test_it_runs_with_its_secrets_until_it_is_told_to_stop(tmp_path: Path) -> None:
    note = f"{RUNTIME.paths.etc}/note"
    apply(toy(f'echo "$KEY/${{#TOKEN}}/$(cat {note})"; exec sleep 60'), KEY="canary-12")
    with supervised(tmp_path / "log") as child:
        wait_for(
            lambda: "canary-12/64/hello" in (tmp_path / "log").read_text() if (tmp_path / "log").exists() else False
        )
        assert observe().active
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0
    assert not observe().active


def test_what_ends_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(toy("echo started; exit 3"))
    with supervised(tmp_path / "log"):
        wait_for(lambda: (tmp_path / "log").exists() and (tmp_path / "log").read_text().count("started") == 2)


# What systemd restarts, by the table of Restart= in systemd.service(5): after exit code 0, 3, SIGTERM and SIGSEGV.
@pytest.mark.parametrize(
    ("restart", "after"),
    [
        ("no", [False, False, False, False]),
        ("always", [True, True, True, True]),
        ("on-success", [True, False, True, False]),
        ("on-failure", [False, True, False, True]),
        ("on-abnormal", [False, False, False, True]),
        ("on-abort", [False, False, False, True]),
        ("on-watchdog", [False, False, False, False]),
    ],
)
def test_a_process_is_restarted_as_systemd_would_restart_it(restart: str, after: list[bool]) -> None:
    process = Process("main", ["true"], {}, "/", 1, restart=restart)
    codes = [0, 3, -signal.SIGTERM, -signal.SIGSEGV]
    assert [supervise._restarts(process, code) for code in codes] == after


@pytest.mark.parametrize(("restart", "code"), [("no", 3), ("no", 0), ("on-failure", 0)])
def test_what_is_not_to_be_restarted_is_not(tmp_path: Path, restart: str, code: int) -> None:
    apply(toy(f"exit {code}", restart=restart))
    with supervised(tmp_path / "log") as child:
        out, _ = child.communicate(timeout=10)
        assert child.returncode == 0
    assert f"main ended with code {code}, and is not restarted" in out


def test_a_fatal_end_is_not_repeated(tmp_path: Path) -> None:
    apply(toy("echo the setting is wrong; exit 78", fatal=(78,)))
    with supervised(tmp_path / "log") as child:
        _, err = child.communicate(timeout=10)
    assert "main ended with code 78" in err
    assert "the setting is wrong" in err


def test_a_second_one_is_told_who_holds_the_lease(tmp_path: Path) -> None:
    apply(toy())
    with supervised(tmp_path / "log") as first:
        wait_for(lambda: observe().active)
        with supervised(tmp_path / "log2") as second:
            _, err = second.communicate(timeout=10)
        assert f"is held by process {first.pid} on" in err
        with pytest.raises(CommandFailed, match="the agent is running"):
            ask(GUEST, "removing", RUNTIME.remove())


def test_one_who_only_looks_keeps_nobody_from_running(tmp_path: Path) -> None:
    apply(toy())
    lease = Path(RUNTIME.paths.state) / ".paddock/lease"
    with supervised(tmp_path / "log"):
        wait_for(lambda: observe().active)  # which makes the file
    wait_for(lambda: not observe().active)  # its killed child held the lease as well
    with subprocess.Popen(["flock", "--shared", lease, "sleep", "0.7"]) as looking:
        wait_for(lambda: subprocess.run(["flock", "--nonblock", lease, "true"]).returncode == 1)
        assert not observe().active
        with supervised(tmp_path / "log2"):
            wait_for(lambda: observe().active)
        looking.wait()


def test_killed_without_warning_it_takes_its_children_along_and_frees_the_lease(tmp_path: Path) -> None:
    apply(toy("echo $$; exec sleep 60"))
    log = tmp_path / "log"
    with supervised(log) as child:
        wait_for(lambda: log.exists() and log.read_text().strip().isdigit())
        grandchild = int(log.read_text())
        child.kill()
        wait_for(lambda: not Path(f"/proc/{grandchild}").exists() or _is_zombie(grandchild))
        wait_for(lambda: not observe().active)


def _is_zombie(pid: int) -> bool:
    return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
