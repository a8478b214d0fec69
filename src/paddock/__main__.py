"""Start the command line: `python -m paddock`, and the program `paddock`.

Each function here saves time at every start, which is most of the time of a short verb.
"""

from __future__ import annotations

import atexit
import gc
import sys
from types import ModuleType


def main() -> None:
    """Run the command line."""
    start_fast()
    from paddock import cli

    cli.main()


def start_fast() -> None:
    """Save time at the start. To be called before anything else is imported."""
    _collect_seldom()
    _import_less()


def _collect_seldom() -> None:
    """Collect garbage less often: a run needs most of its objects until its end."""
    gc.set_threshold(100_000)
    # Python looks through all objects when it ends. It leaves out frozen ones.
    atexit.register(gc.freeze)


def _import_less() -> None:
    """Leave out unused parts of libraries that are slow to import."""
    # Pydantic looks for plugins in the metadata of all installed packages. They would run beside Paddock's secrets.
    plugins = ModuleType("pydantic.plugin._loader")
    plugins.get_plugins = lambda: ()  # type: ignore[attr-defined]
    sys.modules[plugins.__name__] = plugins
    # The command `httpx` imports click, rich and pygments. Where they are missing, the library does without them.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]


if __name__ == "__main__":
    main()
