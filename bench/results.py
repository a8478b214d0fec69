"""The options that benchmarks share, and their files: JSON and SVG."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    made = argparse.ArgumentParser(
        prog=f"python -m bench {name}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--quick", action="store_true", help="few rounds, to see that everything runs")
    made.add_argument("--out", type=Path, metavar="FOLDER", help="write the results as JSON, and charts, into it")
    return made


def write(out: Path | None, name: str, data: Mapping[str, Any], chart: str | None = None) -> None:
    """Write the results of a benchmark into the folder, if there is one."""
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps({"machine": machine(), **data}, indent=2) + "\n")
    if chart is not None:
        (out / f"{name}.svg").write_text(chart)


def machine() -> dict[str, Any]:
    """Return what this machine is, for comparisons."""
    return {
        "cores": os.cpu_count(),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }
