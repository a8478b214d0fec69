"""Enforce which rooms may import which others, and which words they may use."""

from __future__ import annotations

import ast
import functools
import os
import re
import sys
from pathlib import Path

import pytest

import paddock
import pvebox
from paddock.core.deployment import Deployment
from paddock.core.resolve import Located, Resolved
from paddock.kinds import KINDS

SOURCE = Path(paddock.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
BOX = Path(pvebox.__file__).parent

# A room may import itself, the rooms listed for it, and `base`. docs/architecture.md shows this table.
ROOMS: dict[str, tuple[str, str]] = {
    "base": ("errors, secrets, the clock, bounded reading, and the gate that starts processes", ""),
    "file": ("the file: its models and rules, loading with line numbers, editing, sources of secrets", ""),
    "kinds": ("kinds of agents: `hermes`, `litellm`, `service`; pure", "file"),
    "onboard": (
        "all code that runs on machines, and what it is asked; it imports only Python's library and itself",
        "",
    ),
    "channels": (
        "the guest gate, ways to a machine: ssh, `pct exec`, local, a terminal; requests to the program there",
        "onboard",
    ),
    "plan": ("actions, steps, phases, refusals; the plans of the verbs; pure", "file"),
    "places": ("machines and volumes, on Proxmox or hosts: observe, plan (pure), perform", "file plan channels"),
    "runtimes": (
        "render a workload for systemd, an engine or a process; the code of agents",
        "file kinds channels onboard",
    ),
    "backups": (
        "destinations of streams: a folder, a restic repository; which backups count and are kept",
        "file onboard",
    ),
    "verify": ("collect facts about an agent, and judge them (pure)", "file kinds onboard runtimes channels backups"),
    "show": ("progress, journal, tables and timings", "plan"),
    "core": ("one agent from the file to its machine: resolve, observe, perform, converge", "*"),
    "verbs": ("what each verb does", "core *"),
    "setup": ("the conversation of `paddock init`", "file kinds channels places"),
    "cli": ("a small function per verb: parse, call, print", "file kinds plan runtimes backups show core verbs setup"),
}
_BELOW = {"file", "kinds", "onboard", "channels", "plan", "places", "runtimes", "backups", "verify", "show"}
ALLOWED = {room: {*names.split()} - {"*"} | (_BELOW if "*" in names else set()) for room, (_, names) in ROOMS.items()}
EVERYONES = {"base", "__version__"}


def table_of_rooms() -> str:
    """The table of docs/architecture.md."""
    rows = ["| room | job | may import, beside `base` |", "|---|---|---|"]
    for room, (job, names) in ROOMS.items():
        told = "all rooms above" if "*" in names else ", ".join(names.split()) or "none"
        rows.append(f"| `{room}/` | {job} | {told} |")
    return "\n".join(rows) + "\n"


def test_the_page_has_this_table_of_rooms() -> None:
    """PADDOCK_GOLDEN=write writes it."""
    page = SOURCE.parents[1] / "docs/architecture.md"
    text = page.read_text()
    found = re.search(r"^\| room \| job .*?\n(?=\n)", text, re.MULTILINE | re.DOTALL)
    assert found
    if os.environ.get("PADDOCK_GOLDEN") == "write":
        page.write_text(text.replace(found[0], table_of_rooms()))
        return
    assert found[0] == table_of_rooms()


# What the Python of an agent's code tree has, which runs two of these modules.
_OF_THE_AGENT = {"hermes_cli", "yaml"}


def test_what_runs_on_machines_imports_only_pythons_library_and_itself() -> None:
    for path in in_room("onboard"):
        assert imported_rooms(path) <= {"onboard"}, path
        foreign = {name.split(".")[0] for name in imported_modules(path)} - {"paddock", *sys.stdlib_module_names}
        assert not foreign - _OF_THE_AGENT, path


# The folders of the program on a machine.
ONBOARD = {
    "program": "how it is loaded and asked, and what its parts use",
    "state": "the state of an agent: whose it is, its files, its version",
    "systemd": "units and accounts",
    "engine": "containers and images",
    "code": "packages, and trees of code",
    "facts": "what `verify` looks at",
    "stream": "a state as a stream, sent and received",
    "imports": "an existing install that becomes an agent",
    "egress": "the connections of an agent, limited",
    "hermes": "what runs as the agent, with its code",
    "shell": "what runs where there may be no Python, or without Paddock",
}


def test_the_folders_of_the_program_on_a_machine_are_these() -> None:
    assert {path.parent.name for path in in_room("onboard")} == {"onboard", *ONBOARD}


def test_what_is_sent_with_every_request_needs_no_other_part_of_the_program() -> None:
    for path in (SOURCE / "onboard/program").glob("*.py"):
        own = {name for name in imported_modules(path) if name.startswith("paddock.")}
        assert all(name.startswith("paddock.onboard.program.") for name in own), path


def test_every_module_is_in_a_room() -> None:
    loose = {path.name for path in MODULES if path.parent == SOURCE}
    assert loose == {"__init__.py", "__main__.py", "demo.py"}
    assert {path.relative_to(SOURCE).parts[0] for path in MODULES if path.parent != SOURCE} == set(ROOMS)


# "service" is also a word of systemd, of ssh and of everyone.
KIND_NAMES = "|".join(set(KINDS) - {"service"})


def imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=str(module), names=aliases):
                names.add(module)
                names.update(f"{module}.{alias.name}" for alias in aliases if module == "paddock")
            case ast.Import(names=aliases):
                names.update(alias.name for alias in aliases)
    return names


def imported_rooms(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imported_modules(path) if name.startswith("paddock.")}


def in_room(room: str) -> list[Path]:
    return [path for path in MODULES if path.relative_to(SOURCE).parts[0] == room]


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_the_rooms_it_may_import(room: str) -> None:
    for path in in_room(room):
        assert imported_rooms(path) <= ALLOWED[room] | {room} | EVERYONES, path


def test_the_simulated_node_imports_nothing_of_paddock() -> None:
    modules = sorted(BOX.rglob("*.py"))
    assert len(modules) > 50, "the test does not find the modules"
    for path in modules:
        assert not _of_package("paddock", path), path


# What the suites of the simulated node share with the other tests: the level at which they run.
SHARED_WITH_THE_BOX = {"levels"}


def test_the_suites_of_the_simulated_node_import_nothing_of_paddock_and_its_tests() -> None:
    """So that the package can leave with its tests. Their fixtures in tests/conftest.py set only homes apart."""
    tests = Path(__file__).parent
    own = {path.stem for path in tests.iterdir() if path.suffix == ".py" or path.is_dir()} - {"sandbox"}
    assert {"live", "hostile", "places", "cases", "levels"} <= own, "the test does not find the other tests"
    modules = sorted((tests / "sandbox").rglob("*.py"))
    assert len(modules) > 40, "the test does not find the suites"
    for path in modules:
        foreign = {name.split(".")[0] for name in imported_modules(path)} & (own | {"paddock", "bench", "tests"})
        assert foreign <= SHARED_WITH_THE_BOX, path


def test_only_the_demo_and_one_verb_import_the_simulated_node() -> None:
    users = {str(path.relative_to(SOURCE)) for path in MODULES if _of_package("pvebox", path)}
    assert users == {"cli/sandbox.py", "demo.py"}


def _of_package(package: str, path: Path) -> set[str]:
    """Return the modules of a package that a file imports."""
    return {name for name in imported_modules(path) if name.split(".")[0] == package}


def test_no_kind_names_a_place_or_a_runtime() -> None:
    words = re.compile(r"proxmox|lxc|\bvmid\b|systemd|docker|podman|\bssh\b", re.IGNORECASE)
    for path in in_room("kinds"):
        assert not words.search(_code(path)), path


def test_no_place_guest_or_plan_names_a_kind_of_agent() -> None:
    words = re.compile(rf"{KIND_NAMES}|\.kind\b", re.IGNORECASE)
    for room in ("places", "channels", "plan"):
        for path in in_room(room):
            assert not words.search(_code(path)), path


def test_the_file_does_not_name_any_kind_of_agent() -> None:
    for path in in_room("file"):
        assert not re.search(KIND_NAMES, path.read_text(), re.IGNORECASE), path


def test_only_the_gates_start_processes() -> None:
    starters = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if re.search(r"\bimport subprocess\b|\bos\.(system|exec|spawn|popen)", path.read_text())
    }
    # The supervisor's children outlive a call, and the demo types on a terminal like a user. The others run on the
    # agent's machine: its gate, streams of bytes from and to a program, the programs of verify, the test of a code
    # tree, those that limit its connections, and those of its bundle.
    elsewhere = {
        "onboard/program/programs.py",
        "onboard/code/install.py",
        "onboard/engine/look.py",
        "onboard/facts/output.py",
        "onboard/facts/beside.py",
        "onboard/hermes/proof.py",
        "onboard/egress/guard.py",
    }
    elsewhere |= {"onboard/imports/users.py", "onboard/egress/families.py", "onboard/lease.py"}
    elsewhere |= {"onboard/enter.py", "onboard/remains.py"}
    assert starters == {"base/process.py", "runtimes/process/supervise.py", "demo.py", *elsewhere}


def test_only_the_http_gate_notifications_and_the_trial_of_a_model_import_httpx() -> None:
    users = {str(path.relative_to(SOURCE)) for path in MODULES if re.search(r"\bhttpx\b", path.read_text())}
    # The start of the command line keeps the library from importing its own command.
    assert users == {"places/proxmox/api/client.py", "setup/trial.py", "core/notify.py", "__main__.py"}


def test_only_the_tables_of_verbs_and_of_places_import_by_name() -> None:
    """Such an import is not seen by the tests above: the file gets the keys of a place by it."""
    importing = [path for path in MODULES if re.search(r"\bimport_module\(", _code(path))]
    users = {str(path.relative_to(SOURCE)) for path in importing if path not in in_room("onboard")}
    assert users == {"cli/__init__.py", "file/models/place.py", "places/open.py"}


def test_what_others_have_written_is_read_by_the_bounded_reader() -> None:
    """Rooms that read from machines, archives, repositories and models. What follows reads only Paddock's own files."""
    unbounded = re.compile(r"\bjson\.loads?\(|\.read\(\)|\.read_bytes\(\)|\.json\(\)")
    rooms = ("backups", "verify", "channels", "places", "core", "verbs", "show", "setup")
    found = {str(path.relative_to(SOURCE)) for room in rooms for path in in_room(room) if unbounded.search(_code(path))}
    own = {
        "channels/shared.py",
        "show/journal.py",
        "core/lock.py",
        "verbs/status.py",
        "setup/files.py",
        "setup/keys.py",
    }
    # It has read the end of an archive already.
    elsewhere = {"backups/restic.py"}
    assert found == own | elsewhere


def test_only_the_download_of_code_follows_redirects() -> None:
    """An agent, or a server that it controls, could lead a request with a key elsewhere."""
    following = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if re.search(r"\burlopen\b|\bfollow_redirects\b|build_opener\((?!NoRedirects\b)", path.read_text())
    }
    assert following == {"runtimes/code/sources.py"}


def test_places_wait_and_measure_with_the_clock_that_tests_replace() -> None:
    for path in in_room("places"):
        assert not re.search(r"\btime\.(sleep|monotonic)\b|\bdatetime\.now\b", path.read_text()), path


def test_frozen_classes_are_the_cheap_ones() -> None:
    for path in MODULES:
        assert "@dataclass(frozen=True)\n" not in path.read_text(), f"{path}: use paddock.base.frozen"


# A plan is made from values. These are the only modules outside plan/ and the language that it may import.
PURE = {
    *("paddock.base.errors", "paddock.base.frozen", "paddock.file.agent_id", "paddock.base.text"),
    *("__future__", "collections", "dataclasses", "enum", "re", "typing"),
}
# Calls that read from a place, a machine, a file or a program.
READS = {
    *("observe", "locate", "resolve", "reach", "guest", "look", "account_home", "login_keys"),
    *("run", "expect", "stream", "attach", "read_text", "read_bytes", "open", "exists", "iterdir", "glob", "rglob"),
}


def test_planning_imports_nothing_that_reads() -> None:
    for path in in_room("plan"):
        for name in imported_modules(path):
            top = name if name.startswith("paddock.") else name.partition(".")[0]
            assert name.startswith("paddock.plan") or top in PURE, f"{path.name} imports {name}"


def test_planners_of_a_place_import_nothing_that_reads() -> None:
    reading = re.compile(
        r"^(httpx|subprocess|time|paddock\.(base\.clock|base\.process|channels)|.*\.(client|observe|worker|reach))(\.|$)"
    )
    planners = [*(f"{part}/plan" for part in ("machine", "pet", "template", "adopt", "archive")), "planner"]
    planners += ["pet/cache", "pet/forget", "rename/identity", "root/work", "node/observation", "safety/leftovers"]
    for name in planners:
        found = [module for module in imported_modules(SOURCE / f"places/proxmox/{name}.py") if reading.match(module)]
        assert not found, f"{name} imports {found}"


def test_no_property_reads_from_the_world() -> None:
    """An agent is resolved once per run, explicitly: whoever reads an attribute afterwards reads a value."""
    rooms = ("plan", "core", "verbs", "kinds")
    properties = [(path, each) for room in rooms for path in in_room(room) for each in _properties(path)]
    assert len(properties) > 20, "the test does not find the properties"
    for path, function in properties:
        called = {_called(node) for node in ast.walk(function) if isinstance(node, ast.Call)}
        assert not called & READS, f"{path.relative_to(SOURCE)}: {function.name} calls {called & READS}"


def test_resolved_agents_are_frozen_and_hold_fields_only() -> None:
    for kind in (Deployment, Located, Resolved):
        assert getattr(kind, "__dataclass_params__").frozen  # noqa: B009
        cached = [name for name, value in vars(kind).items() if isinstance(value, functools.cached_property)]
        assert not cached, f"{kind.__name__}.{cached} would be computed later"


def _properties(path: Path) -> list[ast.FunctionDef]:
    return [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any(_called(each) in ("property", "cached_property") for each in node.decorator_list)
    ]


def _called(node: ast.AST) -> str:
    """Return the last name of a call, or of a decorator."""
    target = node.func if isinstance(node, ast.Call) else node
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""


def _code(path: Path) -> str:
    """Return the module's source without comments and docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    return ast.unparse(tree)
