"""What needs Linux on the computer that runs `paddock`. Everything else also works on macOS."""

from __future__ import annotations

import sys
from typing import Final

from paddock.errors import BadInput

_NAMES: Final = {"darwin": "macOS"}


def require_linux(what: str, hint: str) -> None:
    """Fail with a message unless this computer runs Linux."""
    if sys.platform != "linux":
        raise BadInput(
            f"{what} needs Linux, and this computer runs {_NAMES.get(sys.platform, sys.platform)}", hint=hint
        )
