"""How exposed a service is, as `systemd-analyze security` counts it: 0 is the best."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def exposure(unit: Path) -> float:
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert found, said
    return float(found[1])
