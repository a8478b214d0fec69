"""The program beside the agent reads what the agent's log says since its last start; the agent may write anything."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from paddock.onboard.facts import beside

SINCE = 1_800_000_000.0


def line(after: float, text: str) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(SINCE + after)) + f",001 INFO tools: {text}\n"


def found(path: Path) -> dict[str, Any]:
    answer = beside.log({"path": str(path), "words": ["MCP server '"], "since": SINCE})
    return dict(answer["content"])


def test_lines_before_the_last_start_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    log.write_text(line(-60, "MCP server 'a' old") + line(1, "something") + line(2, "MCP server 'a' new"))
    assert [text.rpartition(" ")[2] for text in found(log)["lines"]] == ["new"]
    assert found(log)["whole"] is True


def test_older_parts_of_the_log_are_read_until_the_start(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    log.write_text(line(9, "MCP server 'a' three"))
    (tmp_path / "agent.log.1").write_text("no time\n" + line(5, "MCP server 'a' two"))
    (tmp_path / "agent.log.2").write_text(line(-9, "x") + line(1, "MCP server 'a' one"))
    (tmp_path / "agent.log.3").write_text(line(-60, "MCP server 'a' zero"))
    assert [text.rpartition(" ")[2] for text in found(log)["lines"]] == ["one", "two", "three"]
    assert found(log)["whole"] is True


def test_a_log_whose_oldest_part_is_younger_than_the_start_may_lack_lines(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    for name in ("agent.log", *(f"agent.log.{number}" for number in range(1, beside.LOGS))):
        (tmp_path / name).write_text(line(5, "x"))
    assert found(log) == {"lines": [], "whole": False}
    assert found(tmp_path / "none") == {"lines": [], "whole": True}


def test_a_long_log_is_read_from_its_end_and_its_lines_are_cut(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    filler = line(1, "MCP server 'a' " + "x" * 5000)
    log.write_text(filler * (beside.LARGEST_LOG // len(filler) + 500) + line(2, "MCP server 'a' last"))
    lines = found(log)["lines"]
    assert len(lines) == beside.LINES
    assert max(map(len, lines)) == beside.LAST
    assert lines[-1].endswith("last")


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "unreadable"])
def test_something_else_in_place_of_the_log_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    log = tmp_path / "agent.log"
    match kind:
        case "pipe":
            os.mkfifo(log)
        case "folder":
            log.mkdir()
        case "device":
            log.symlink_to("/dev/zero")
        case _:
            log.symlink_to(log)
    assert found(log)["lines"] == []
