"""The command ``hermes`` on the agent's machine; this file is copied there and run by the Python of the code tree.

A variable tells Hermes where pinned values are, and files that the agent can write (``.env``, sources of secrets,
config.yaml) can change that variable. This program always uses the pinned values beside this file. It also names the
profile: without a name, Hermes would use the one in the file ``active_profile`` of its home.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
REFUSED = "managed by paddock: edit paddock.yaml and run paddock up"

# Options before the command that take a value (hermes_cli/main.py, _TOP_LEVEL_VALUE_FLAGS).
_WITH_A_VALUE = {"-p", "--profile", "-z", "--oneshot", "-m", "--model", "--provider", "-t", "--toolsets"} | {
    *("-r", "--resume", "-s", "--skills", "--usage-file", "-c", "--continue")
}


def command(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line without options: the command, its subcommands and their arguments."""
    words: list[str] = []
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            words.append(word)
        elif word in _WITH_A_VALUE:
            del rest[:1]
    return words


def with_profile(argv: Sequence[str]) -> list[str]:
    """Return a command line that names a profile: the default one, unless another is named already."""
    named = any(word in ("-p", "--profile") or word.startswith("--profile=") for word in argv)
    return [*argv] if named else ["--profile=default", *argv]


def main() -> None:
    refused = json.loads((HERE / "refused.json").read_text())
    words = command(sys.argv[1:])
    if any(words[: len(each)] == each for each in refused):
        sys.exit(REFUSED)
    home = Path(os.environ.get("HERMES_HOME") or Path.home() / ".hermes")
    if home.is_dir():
        _make_usable(home / "config.yaml")
    if words[:2] == ["gateway", "run"]:
        forget_ended_run(home / "gateway_state.json")

    from hermes_cli import managed_scope  # type: ignore[import-not-found]

    managed_scope.get_managed_dir = lambda: HERE
    sys.argv[1:] = with_profile(sys.argv[1:])
    runpy.run_module("hermes_cli.main", run_name="__main__", alter_sys=True)


def forget_ended_run(state: Path) -> None:
    """Remove the state of a gateway that has ended. After a crash its connectors would be listed as connected."""
    try:
        pid = int(json.loads(state.read_text(encoding="utf-8"))["pid"])
        if pid != os.getpid():  # in a container the next run may have the same number
            os.kill(pid, 0)
            return
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        pass
    with contextlib.suppress(OSError):
        state.unlink()


def _make_usable(config: Path) -> None:
    """Replace a config.yaml that cannot be read: Hermes applies pinned values only if there is a readable one."""
    import yaml  # type: ignore[import-untyped]

    try:
        if isinstance(yaml.safe_load(config.read_text(encoding="utf-8")) or {}, dict):
            return
    except (OSError, ValueError, yaml.YAMLError):
        pass
    if config.exists():
        config.replace(config.with_name("config.yaml.broken"))
    config.touch()


if __name__ == "__main__":
    main()
