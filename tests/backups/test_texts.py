"""Which texts of a state are kept beside its backup."""

from __future__ import annotations

import io
import os
from pathlib import Path

from paddock.backups.verified import Verified
from paddock.stream.layout import matcher
from stream.streams import sent


def texts(home: Path) -> dict[str, str]:
    with Verified(io.BytesIO(sent(home)), matcher(["skills/**/SKILL.md"]), lambda count: None) as stream:
        while stream.read(1 << 20):
            pass
        stream.manifest()
        return stream.texts()


def test_a_skill_of_the_code_is_no_text_until_the_agent_changes_it(tmp_path: Path) -> None:
    for name in ("bundled", "own"):
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(f"{name}\n")
    bundled = tmp_path / "skills/bundled/SKILL.md"
    os.utime(bundled, (0, 0))  # as in a code tree, and in a copy of it
    assert texts(tmp_path) == {"skills/own/SKILL.md": "own\n"}
    bundled.write_text("changed\n")
    assert texts(tmp_path) == {"skills/bundled/SKILL.md": "changed\n", "skills/own/SKILL.md": "own\n"}
