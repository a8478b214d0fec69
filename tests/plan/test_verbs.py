"""Plans of whole verbs, as data: the place's plan and the inside of the machine in, steps out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import agrees, golden, read_case
from paddock.onboard.program.frozen import decoded
from paddock.plan import step as show
from paddock.plan import verbs
from paddock.plan.actions import AwaitAnswer, PlaceAction
from paddock.plan.agent import AgentSeen, AgentWant
from paddock.plan.container import ContainerWant
from paddock.plan.step import MachineAfter, MachinePlan, Phase, Plan, Refusal, Risk, Step
from paddock.plan.verbs import InsideSeen
from reported import seen

WORDING = Path(__file__).parent.parent / "data/wording"
UNREACHABLE = Refusal("the machine does not answer", code="machine.unreachable")
GATEWAY = Refusal("the gateway has no address", code="gateway.unknown")


def wanted(
    container: dict[str, Any] | None = None,
    packages: Sequence[str] = (),
    optional: Sequence[str] = (),
    added: Sequence[str] = (),
    **rest: Any,
) -> AgentWant:
    return AgentWant(
        container=ContainerWant(**container) if container else None,
        packages=frozenset(packages),
        optional=frozenset(optional),
        added=frozenset(added),
        **rest,
    )


def report(lines: str) -> AgentSeen:
    """Read a report as cases write it: one record a line."""
    pairs = (line.partition("=") for line in lines.split("\n") if line)
    return seen([(name, value) for name, _, value in pairs])


def machine_of(case: dict[str, Any]) -> MachinePlan:
    """Read the place's plan of a case. A step is written as its id, or as `ID PHASE RISK`."""
    given_ = case.get("machine", {})
    return MachinePlan(
        steps=[_place_step(line) for line in given_.get("steps", ())],
        refusals=[Refusal(code, code=code) for code in given_.get("refusals", ())],
        notes=given_.get("notes", ()),
        after=MachineAfter(**given_.get("after", {})),
    )


def _place_step(line: str) -> Step:
    step_id, phase, risk = line.split(" ") if " " in line else (line, "MACHINE", "SAFE")
    return Step(step_id, step_id, "", PlaceAction(), Risk[risk], Phase[phase])


def seen_of(case: dict[str, Any]) -> InsideSeen:
    agent = report(case["seen"]) if case.get("seen") is not None else None
    refusal = UNREACHABLE if case.get("unreachable") else None
    return InsideSeen(agent, refusal, stopped=case.get("stopped", False))


@pytest.mark.parametrize("path", golden("plan/verbs"))
def test_plan(path: Path) -> None:
    case = read_case(path)
    want = GATEWAY if case["want"] == "unknown" else wanted(**case["want"])
    machine, seen = machine_of(case), seen_of(case)
    keeps_machine = case.get("keeps_machine", True)
    plans = {
        "up": lambda: verbs.up("hermes", want, machine, seen),
        "down": lambda: verbs.down("hermes", machine, seen, keeps_machine=keeps_machine),
        "forget": lambda: verbs.forget("hermes", machine, seen, keeps_machine=keeps_machine),
    }
    asked = [verb for verb in plans if verb in case]
    assert asked, "the case expects nothing"
    for verb in asked:
        assert agrees(path, case, verb, as_data(plans[verb]()))


def as_data(plan: Plan) -> dict[str, Any]:
    """A plan without prose."""
    data = {
        "steps": [_as_line(step) for step in plan.steps],
        "refusals": [refusal.code for refusal in plan.refusals],
        "notes": len(plan.notes),
        "partial": plan.partial,
    }
    return {key: value for key, value in data.items() if value}


def _as_line(step: Step) -> str:
    if isinstance(step.action, PlaceAction):
        return step.id
    fields = ", ".join(f"{name}={value}" for name, value in asdict(step.action).items())
    risk = "" if step.risk is Risk.SAFE else f", {step.risk.value}"
    return f"{step.id}: {type(step.action).__name__}({fields}){risk}"


@pytest.mark.parametrize(
    "case",
    [
        "container-other-image",
        "container-older-image",
        "container-to-pull",
        "container-pulled-another-image",
        "container-left-for-systemd",
        "container-engine-to-start",
        "renamed-container",
        "renamed-container-of-another-name",
        "namesake-of-another-project",
        "upgrade",
        "downgrade",
        "rollback",
        "upgrade-after-a-restore",
        "packages-on-a-machine-without-apt-and-dnf",
        "packages-that-cannot-be-installed",
        "system-service-on-nixos",
        "account-other-uid",
        "account-in-use",
        "account-other-name",
        "account-open",
        "limits-with-other-settings",
    ],
)
def test_wording(case: str) -> None:
    """One snapshot pins the words of each kind of plan; all other cases hold no prose."""
    path = WORDING / f"{case}.yaml"
    loaded = read_case(path.parent.parent / "plan/verbs" / f"{case}.yaml")
    plan = verbs.up("hermes", wanted(**loaded["want"]), machine_of(loaded), seen_of(loaded))
    down = verbs.down("hermes", machine_of(loaded), seen_of(loaded), keeps_machine=True)
    snapshot = read_case(path)
    assert agrees(path, snapshot, "up", show.as_text(plan, {}))
    assert agrees(path, snapshot, "down", show.as_text(down, {}))


def test_an_empty_report_is_an_empty_observation() -> None:
    assert seen([]) == AgentSeen()
    assert decoded(AgentSeen, {}) == AgentSeen()


PHASES = st.sampled_from([phase for phase in Phase if phase in (Phase.MACHINE, Phase.MANUAL)])
STEPS = st.lists(st.builds(lambda n, phase: f"place.{n} {phase.name} SAFE", st.integers(0, 9), PHASES), max_size=6)
REPORTS = st.lists(
    st.sampled_from(
        ["bundle=g1", "bundle=g2", "tree=t2", "secrets=s2", "answered=g2", "unit=a active", "unit=b failed"]
    ),
    unique=True,
)


@given(steps=STEPS, lines=REPORTS, mounts=st.booleans(), foreground=st.booleans())
def test_phases_are_in_order_and_the_last_step_verifies(
    steps: list[str], lines: list[str], mounts: bool, foreground: bool
) -> None:
    want = wanted(tree="t2", bundle_id="g2", secrets="s2", foreground=foreground, mounts=["/data"] if mounts else ())
    plan = verbs.up("bee", want, machine_of({"machine": {"steps": steps}}), InsideSeen(report("\n".join(lines))))
    phases = [step.phase for step in plan.steps]
    assert phases == sorted(phases)
    kept = [step.id for step in plan.steps if isinstance(step.action, PlaceAction)]
    assert sorted(kept) == sorted(line.split(" ")[0] for line in steps), "a step of the place was lost"
    if plan.steps and not foreground:
        assert isinstance(plan.steps[-1].action, AwaitAnswer)
    if plan.steps and mounts:
        check = next(at for at, step in enumerate(plan.steps) if step.id == "mounts.check")
        assert all(step.phase <= Phase.MOUNTS for step in plan.steps[:check])


RECORD = ["upgrade=from=1.0", "upgrade=to=2.0", "upgrade=backup=b", "upgrade=where=w", "upgrade=at=1"]
ENGINE = {"engine": "docker", "service": None, "install": False, "image": "i2", "archive": False, "identity": "image=2"}


@given(
    lines=REPORTS,
    ran=st.sampled_from(["", "1.0", "2.0", "3.0"]),
    recorded=st.booleans(),
    verified=st.booleans(),
    back=st.booleans(),
    aside=st.booleans(),
    contained=st.sampled_from([None, "image=1", "image=2"]),
    foreground=st.booleans(),
)
def test_another_version_touches_a_state_only_after_it_was_saved(
    lines: list[str],
    ran: str,
    *,
    recorded: bool,
    verified: bool,
    back: bool,
    aside: bool,
    contained: str | None,
    foreground: bool,
) -> None:
    record = [*RECORD, *(["upgrade=verified=yes"] * verified), *(["upgrade=back=yes"] * back)] if recorded else []
    more = [*([f"state.ran={ran}"] * bool(ran)), *record, *(["state.before=/b"] * aside)]
    more += ["engine=up", f"container={contained}"] if contained else []
    seen = report("\n".join([*lines, *more]))
    want = wanted(
        tree="t2",
        bundle_id="g2",
        secrets="s2",
        foreground=foreground,
        version="2.0",
        container=ENGINE if contained else None,
    )
    plan = verbs.up("bee", want, MachinePlan(), InsideSeen(seen))
    ids = [step.id for step in plan.steps]
    changes = ran in ("1.0", "3.0") and not (recorded and back)
    if plan.refusals:
        assert changes, "only a change of the version is refused here"
        assert aside
        return
    assert ("state.save" in ids) == changes
    if changes:
        touching = {"container.create", "container.recreate", "agent.configure"} & set(ids)
        assert touching, "the new version never gets to run"
        saved = ids.index("state.save")
        assert saved < min(ids.index(each) for each in touching)
        if seen.units:
            assert ids.index("agent.stop") < saved
        proven = [ids.index(each) for each in ("code.install", "image.try", "backup.reach") if each in ids]
        assert all(at < saved for at in proven)
        if "agent.stop" in ids:
            assert all(at < ids.index("agent.stop") for at in proven), "something is proven only after the stop"
