"""Reports and answers of an attacked machine: none adds a step to a plan, breaks Paddock or reaches the terminal.

The report of a host to a survey, the report of an agent's machine, and an agent's answers to checks can hold any data.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import paddock
from hostile import agents
from hostile.ground import Machine, as_root
from hostile.stubs import DOCKER, ENGINE_STUB, FAILED_UNITS
from levels import by_level
from paddock.base.errors import PaddockError
from paddock.base.process import Result
from paddock.base.text import one_line
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import ask
from paddock.file.models.whole import AgentSpec
from paddock.kinds import KINDS, agent_from
from paddock.kinds.checks import Check
from paddock.kinds.workload import Paths
from paddock.onboard.engine.create import LeaveEngine
from paddock.onboard.program.frozen import fields_of
from paddock.places.host.survey import parsed, shapes
from paddock.plan.actions import RemoveContainer
from paddock.plan.agent import AgentSeen, AgentWant, up
from paddock.verify import look
from paddock.verify.line import Line

ENGINE: Final = "/srv/evil"
# Characters that a shell or Python may treat as the end of a line.
SEPARATORS: Final = ("\u2028", "\u2029", "\v", "\f", "\x85", "\x1c", "\x1d", "\x1e", "\r")


@as_root
def test_a_line_of_the_log_does_not_add_a_step_to_the_plan(ground: Machine) -> None:
    runtime = agents.systemd()
    agents.installed(ground, runtime)
    ground.stub("journalctl", "cat /mnt/log")
    ground.stub("systemctl", FAILED_UNITS)
    for separator in SEPARATORS:
        (ground.folder / "log").write_text(f"paddock: error{separator}left={ENGINE} x{separator}bundle=forged\n")
        seen = agents.seen(ground, runtime)
        assert "error" in seen.said, "the log was not read"
        steps = up("bee", AgentWant(None, "g", "s", foreground=False), seen)
        engines = [step.action.engine for step in steps if isinstance(step.action, RemoveContainer)]
        assert not engines, f"after {separator!a} root would run {engines}"
        assert seen.bundle_id != "forged", ascii(separator)


@as_root
def test_a_package_name_in_a_container_does_not_add_a_step_to_the_plan(ground: Machine) -> None:
    """Packages in a container are listed from file names, which the agent can choose."""
    runtime = agents.docker()
    ground.stub("docker", ENGINE_STUB)
    agents.installed(ground, runtime)
    ground.root("mkdir -p /srv/containers && echo paddock.agent=home_bee >/srv/containers/paddock-home_bee")
    ground.root("echo paddock.identity=schema=1 >>/srv/containers/paddock-home_bee")
    ground.stub("docker", f'case "$1" in diff) cat /mnt/diff ;; esac\n{DOCKER}')
    for separator in SEPARATORS:
        (ground.folder / "diff").write_text(f"A /var/lib/dpkg/info/x{separator}left=evil{separator}.list\n")
        seen = agents.seen(ground, runtime)
        assert seen.container.layer, "the container was not examined"
        assert not seen.left, f"after {separator!a} root would run {list(seen.left)}"


@as_root
def test_a_container_is_removed_only_with_docker_or_podman(ground: Machine) -> None:
    ground.root(f"printf '#!/bin/sh\\ntouch /root/taken\\n' >{ENGINE} && chmod 755 {ENGINE}")
    runtime = agents.systemd()
    agents.installed(ground, runtime)
    answer = ground.ask(LeaveEngine(runtime.deployed, ENGINE))
    assert answer.result.err == f"there is no engine {ENGINE}"
    assert not ground.exists("/root/taken"), "root ran a program that the report named"


def reported(answer: object) -> AgentSeen:
    """Return the agent as a machine reports it whose program answers as the test says."""

    class Reporting(LocalGuest):
        def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
            return Result(tuple(argv), 0, f"\0{dumps({'code': 0, 'value': answer})}\n", "", 0.0)

    return ask(Reporting(), "observing", agents.systemd().observe(()), into=AgentSeen)


@pytest.mark.parametrize(
    "report",
    [
        *({"left": {"/srv/evil": []}}, {"left": {"docker x": []}}, {"left": ["docker"]}, {"left": {"docker": "x"}}),
        *({"unit": {"x": "active"}}, {"units": [["x", "active"]]}, {"bundle_id": None}, {"room": [1, "2"]}),
        *({"container": {"engine": 7}}, {"ends": {"x": {"restarts": "9"}}}, {"namesakes": []}, [], None, "up", 7),
    ],
)
def test_a_report_in_another_form_is_an_error(report: object) -> None:
    assert reported({"left": {"docker": []}}).left
    with pytest.raises(PaddockError):
        reported(report)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "engine"]), inner, max_size=3),
    max_leaves=5,
)
shaped_reports = st.dictionaries(st.sampled_from([*(fields_of(AgentSeen) or ()), "other"]), values, max_size=4)


@settings(max_examples=by_level(150, 3000), deadline=None)
@given(shaped_reports)
def test_no_report_of_a_machine_breaks_paddock(report: dict[str, object]) -> None:
    try:
        seen = reported(report)
    except PaddockError:
        return
    assert {*seen.left} <= {"docker", "podman"}
    want = AgentWant(None, "g", "s", foreground=False)
    assert all(step.id for step in up("bee", want, seen))


def test_no_module_splits_text_with_splitlines() -> None:
    """``str.splitlines`` also splits at characters like U+2028, which an agent can write into any text."""
    source = Path(paddock.__file__).parent
    found = [
        f"{path.relative_to(source)}:{node.lineno}"
        for path in sorted(source.rglob("*.py"))
        if "file" not in path.parts and path.name != "demo.py"  # these read only text of the user
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "splitlines"
    ]
    assert not found


# --- the report of a host to a survey


NAMES = [
    *("system", "architecture", "uid", "account", "init", "release", "nixos", "libc", "python", "installs", "manager"),
    *("lingers", "sudo", "installed", "docker", "podman", "free", "other"),
]
TRUE = [("system", "Linux"), ("architecture", "x86_64"), ("init", "systemd"), ("libc", "glibc 2.36")]
ESCAPE = "\x1b]0;title\x07\u202e"


def texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [text for each in values for text in texts(each)]


@settings(max_examples=by_level(150, 3000), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.text() | st.sampled_from(["0", "yes", "running", "docker"]))))
@example([*TRUE, ("account", ESCAPE), ("release", f'PRETTY_NAME="{ESCAPE}"\nID={ESCAPE}'), ("docker", f"1 {ESCAPE}")])
@example([*TRUE, ("uid", "0"), ("free", "9" * 5000), ("libc", f"glibc {'9' * 5000}.1"), ("podman", "4.3.1 true")])
@example([("release", "ID='\n=\n='='\nID=a b")])
def test_no_report_of_a_host_breaks_a_survey_or_reaches_the_terminal(records: list[tuple[str, str]]) -> None:
    printed = "\0report=1\0" + "".join(f"{name}={value}\0" for name, value in records) + "end=ok\0"
    try:
        host = parsed(printed)
    except PaddockError:
        assert any("\0" in value for _, value in records)
        return
    for fits in (shapes(host), shapes(host, local=True)):
        assert all(one_line(text) == text for text in texts([asdict(host), *map(asdict, fits)]))


@pytest.mark.parametrize("printed", ["", "root@host:~# ", "\0report=1\0system=Linux\0", "\0report=1\0x\0end=ok\0"])
def test_an_incomplete_report_is_rejected(printed: str) -> None:
    with pytest.raises(PaddockError, match="report"):
        parsed(printed)


# --- answers to checks


PATHS: Final = Paths.of(code="/opt/c", etc="/etc/c", state_link="/var/lib/.agents/c", state="/var/lib/c")
AGENTS: Final[dict[str, dict[str, Any]]] = {
    "hermes": {"version": "0.19.0", "settings": {"model": {"default": "m"}}, "dashboard": True},
    "litellm": {"version": "1.106.2", "secrets": {"LITELLM_MASTER_KEY": {"env": "KEY"}}},
    "service": {"command": ["x"], "health": {"http": "http://127.0.0.1:1/"}},
}
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS: Final = (
    "status",
    "body",
    "content",
    "refused",
    "found",
    "seconds",
    "choices",
    "code",
    "out",
    "err",
    "data",
    "ok",
)
shaped = st.dictionaries(st.sampled_from(KEYS), json, max_size=4)


def checks(kind: str) -> list[Check]:
    spec: AgentSpec = agent_from({"kind": kind, "place": "here", **AGENTS[kind]})
    recipe = KINDS[spec.kind]
    probes = recipe.probes(spec, "Say ok.", conversation="c")
    return [*look.of_every_agent("bee", PATHS, probes), *recipe.checks(spec, "bee", PATHS)]


@pytest.mark.parametrize("kind", AGENTS)
@settings(max_examples=by_level(30, 100))
@given(data=st.data())
def test_every_answer_of_an_agent_becomes_check_results(kind: str, data: st.DataObject) -> None:
    questions = checks(kind)
    answers = [{"found": data.draw(shaped), "seconds": 0.1} for _ in questions]
    assert all(isinstance(line, Line) for line in look.lines(questions, {"uid": 1, "answers": answers}))


@given(found=shaped | st.dictionaries(st.sampled_from(["answers", "refused", "missing", "uid"]), json, max_size=3))
def test_answers_in_an_unexpected_form_become_one_failed_check(found: dict[str, Any]) -> None:
    lines = list(look.lines(checks("hermes"), found))
    assert [line.check for line in lines] == ["inside"]
