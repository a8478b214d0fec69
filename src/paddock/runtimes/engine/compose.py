"""The agent's container as a compose file, for people who want to read it or run it by hand."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Any

from ruamel.yaml import YAML


def compose(service: str, container: dict[str, Any], options: Sequence[str]) -> str:
    """Return a file for Compose 1.27 or newer. It cannot contain the command line options of the container."""
    text = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump({"services": {service: container}}, text)
    about = "# The container that `paddock up` creates. Run by hand, it does not hold the lease on the state.\n"
    left_out = f"# Options that a compose file cannot contain: {' '.join(options)}\n" if options else ""
    return about + left_out + text.getvalue()
