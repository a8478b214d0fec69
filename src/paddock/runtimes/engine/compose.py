"""The same container as a compose file, for people who expect one: to read, or to run it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Any

from ruamel.yaml import YAML


def compose(service: str, container: dict[str, Any], options: Sequence[str]) -> str:
    """Return a file that Compose 1.27 or newer takes; options of the command line have no place in it."""
    text = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump({"services": {service: container}}, text)
    told = "# What `paddock up` makes. Run by hand, nothing keeps two machines from writing to one state.\n"
    lost = f"# Not in here: {' '.join(options)}\n" if options else ""
    return told + lost + text.getvalue()
