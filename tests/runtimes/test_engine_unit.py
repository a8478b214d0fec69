"""The unit of a container: when systemd starts it again."""

from __future__ import annotations

import pytest

from paddock.file.models.agent import RuntimeName
from paddock.kinds.workload import Process
from paddock.runtimes.engine import dialect
from paddock.runtimes.engine.unit import unit


def values(restart: str) -> dict[str, str]:
    process = Process("main", ["true"], {}, "/", 1, restart=restart, restart_exits=(75,))
    text = unit(
        "bee",
        dialect.dialect_of(RuntimeName.DOCKER),
        ["lease.service"],
        "/etc/paddock",
        "",
        [process],
    )
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@pytest.mark.parametrize("restart", ["always", "on-success", "on-failure", "on-watchdog", "no"])
def test_systemd_decides_about_most_restarts(restart: str) -> None:
    assert (values(restart)["Restart"], values(restart)["RestartForceExitStatus"]) == (restart, "75")


@pytest.mark.parametrize("restart", ["on-abnormal", "on-abort"])
def test_a_crash_in_a_container_is_an_exit_code_of_the_engine(restart: str) -> None:
    found = values(restart)
    forced = {int(code) for code in found["RestartForceExitStatus"].split()}
    assert found["Restart"] == "no"
    assert {75, 128 + 6, 128 + 9, 128 + 11} <= forced  # SIGABRT, SIGKILL, SIGSEGV
    assert not forced & {128 + 1, 128 + 2, 128 + 13, 128 + 15}  # SIGHUP, SIGINT, SIGPIPE, SIGTERM end cleanly
