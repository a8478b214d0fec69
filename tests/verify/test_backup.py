"""Golden cases of what verify and status say about backups."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cases import agrees, golden, read_case
from paddock.backups.contract import Backup, BackupsSeen, Drill, time_of
from paddock.file.models.quantities import Duration
from paddock.verify import backup

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def seen_of(data: dict[str, Any]) -> BackupsSeen:
    name = data.get("newest")
    made = time_of(name) if name else None
    drill = Drill.from_json(json.dumps(data["drill"]).encode()) if "drill" in data else None
    newest = Backup(name, made, 1, {}) if name and made else None
    return BackupsSeen(Duration.parse("2d"), "/backups/home_hermes", newest, drill, data.get("unknown"))


@pytest.mark.parametrize("path", golden("backup_checks"))
def test_verify_and_status_judge_the_newest_backup_and_the_last_drill(path: Path) -> None:
    case = read_case(path)
    seen = seen_of(case["seen"])
    lines = [
        " | ".join(filter(None, (str(line.outcome), line.check, line.evidence, line.hint)))
        for line in backup.lines("hermes", seen, NOON)
    ]
    assert agrees(path, case, "lines", lines)
    assert agrees(path, case, "status", [backup.newest_in_words(seen, NOON), backup.drill_in_words(seen, NOON)])
