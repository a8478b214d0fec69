"""Fixtures and hooks of all tests: a home for every test, the order of test files, and an orderly end."""

from __future__ import annotations

import gc
import itertools
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import pytest

from built import CACHE
from levels import LEVEL, is_hostile
from paddock.base import secret
from paddock.file.secrets import allowed

if TYPE_CHECKING:
    from live.node import Node

if sys.dont_write_bytecode:
    # Compiled tests are kept, but not beside the sources: pytest takes ten seconds to rewrite the asserts of all tests,
    # in each worker. Only this process is told so, not the programs that tests start.
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(CACHE / "bytecode")

# Only ./test --all collects these folders. Their tests need real machines, and the stories cover every shape.
collect_ignore = [] if LEVEL == "all" else ["live", "sandbox/live"]

# Seconds of each test file by level, from earlier runs. PADDOCK_WEIGHTS=write ./test writes those of its level again.
# A level that does not list a file has the seconds of the default level.
WEIGHTS: Final = Path(__file__).parent / "data/weights.json"
# Seconds of a file that is not listed there. Live tests are slow, so a new one starts early.
NEW_LIVE_FILE, NEW_FILE = 120.0, 1.0

# Python looks for garbage after each 700 new objects. The tests make millions of them, and the collected tests are many
# as well: a sixth of the computing was spent on that.
gc.set_threshold(100_000, 50, 1000)

_numbers = itertools.count()
_workers: list[int] = []  # process ids, in the process that started them


def pytest_configure() -> None:
    _avoid_shims()
    signal.signal(signal.SIGTERM, _interrupt)
    if "PYTEST_XDIST_WORKER" in os.environ:
        signal.signal(signal.SIGINT, _interrupt)
    elif signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell lets its background jobs ignore Ctrl-C. The programs that the tests interrupt would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _avoid_shims() -> None:
    """Let `python3` be the program. pyenv's is a script, which takes longer than most of what the tests run with it."""
    found = shutil.which("python3")
    if found and Path(found).read_bytes().startswith(b"#!"):
        os.environ["PATH"] = f"{Path(sys.executable).resolve().parent}{os.pathsep}{os.environ['PATH']}"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End the run as Ctrl-C does. Later signals are ignored, so that fixtures can clean up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    raise KeyboardInterrupt


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. SIG_IGN would be inherited by the commands that clean up."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_newgateway(gateway: Any) -> None:
    _workers.append(gateway._rinfo().pid)


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """End the xdist workers and wait for their fixtures to clean up. xdist itself would kill them after 10 seconds."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    for pid in _workers:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + 120
    while time.monotonic() < end and any(map(_runs, _workers)):
        time.sleep(0.1)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Exit from an interrupted worker, whose fixtures have cleaned up by now. xdist would keep the process."""
    if "PYTEST_XDIST_WORKER" in os.environ and signal.getsignal(signal.SIGTERM) is _ignore:
        os._exit(2)


def _runs(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def pytest_collection_finish() -> None:
    gc.freeze()  # the collected tests and the imported modules stay


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests. If several workers share them, start the slowest files first: all end together."""
    for item in items:
        if is_hostile(item.nodeid):
            item.add_marker("hostile")
        if LEVEL != "all" and item.get_closest_marker("live") and not item.nodeid.startswith("tests/stories/"):
            item.add_marker(pytest.mark.skip(reason="needs a real machine; ./test --all runs it"))
    if not config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        return
    known = json.loads(WEIGHTS.read_text())
    weights = {**known["default"], **known.get(LEVEL, {})}
    live = {_file(item.nodeid) for item in items if item.get_closest_marker("live")}

    def weight(item: pytest.Item) -> float:
        file = _file(item.nodeid)
        return float(weights.get(file, NEW_LIVE_FILE if file in live else NEW_FILE))

    # A stable sort: tests keep their order within a file.
    items.sort(key=lambda item: (-weight(item), _file(item.nodeid)))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.fixture
def show_table(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Return a function that shows a text at the end of the whole run, also from a worker."""
    return lambda text: record_property("table", text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [each for found in terminalreporter.stats.values() for each in found]
    tests = [report for report in reports if isinstance(report, pytest.TestReport)]
    for report in tests:
        for table in (text for name, text in report.user_properties if name == "table" and report.when == "call"):
            terminalreporter.section(report.nodeid)
            terminalreporter.write_line(str(table))
    seconds: Counter[str] = Counter()
    for report in tests:
        seconds[_file(report.nodeid)] += report.duration  # type: ignore[assignment]
    if len(seconds) > 1:
        terminalreporter.section("slowest test files")
        for file, total in seconds.most_common(10):
            terminalreporter.write_line(f"{total:7.1f} s  {file}")
    if os.environ.get("PADDOCK_WEIGHTS") == "write":
        _write_weights(seconds)


def _write_weights(seconds: Counter[str]) -> None:
    """Write down how long each file took that takes a second or more at this level."""
    rounded = {file: round(total) for file, total in sorted(seconds.items()) if total >= 1}
    known = {**json.loads(WEIGHTS.read_text()), LEVEL: rounded}
    WEIGHTS.write_text(json.dumps(known, indent=2) + "\n")


@pytest.fixture(scope="session")
def live_node() -> Iterator[Node]:
    """Start one node with real containers for all live tests of a worker."""
    from live.node import Node
    from prepared import node_with_templates

    with node_with_templates() as stage:
        yield Node(stage)


@pytest.fixture(autouse=True)
def _own_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Put journals and deployed agents below a folder of the test. Only the cache of downloads is shared."""
    if request.node.get_closest_marker("live"):
        return  # live tests share the home of their node
    if "tmp_path" in request.fixturenames:
        folder: Path = request.getfixturevalue("tmp_path")
    else:
        # Most tests write nothing, and a tmp_path takes time.
        folder = tmp_path_factory.getbasetemp() / f"home{next(_numbers)}"
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(folder / name.lower()))


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret, "_known", set())


@pytest.fixture(autouse=True)
def _no_approvals_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowed, "_allowed", set())
