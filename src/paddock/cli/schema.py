"""``paddock schema``: print the JSON Schema of paddock.yaml."""

from __future__ import annotations

import json

from paddock.cli import verb


@verb("paddock schema > paddock.schema.json")
def schema() -> None:
    """Print the JSON Schema of paddock.yaml, for editors. It describes every key."""
    from paddock.file.schema import json_schema
    from paddock.kinds import KINDS

    print(json.dumps(json_schema(KINDS), indent=2))
