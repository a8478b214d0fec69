"""The command line. Each verb is a small function that parses arguments, calls `verbs/` and prints the result."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from paddock import __version__
from paddock.base import process
from paddock.base.errors import Exit, PaddockError, disk_full_error, is_full

_EXIT_CODES: Final = (
    "Exit codes: 0 done, 1 failed, 2 bad input, 3 changes pending (plan --exit-code), 4 needs a person."
)


class _Group(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in _VERBS if name in self.commands]


app = typer.Typer(
    name="paddock",
    cls=_Group,
    help="Disposable compute, durable memory: AI agents on Proxmox or a Linux host with systemd, from one file.",
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_debug = False


def verb(*examples: str, of: typer.Typer = app, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a command, with usage examples and the exit codes in its help."""
    shown = [f"Example: {example}" for example in examples]
    return of.command(epilog="\n\n".join([*shown, _EXIT_CODES]), **options)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Print a traceback when the command fails."),
) -> None:
    global _debug
    _debug = debug


# All verbs, in the order of the help. A verb is in the module of its name, or in the one that `_ELSEWHERE` has.
_VERBS: Final = (
    *("adopt", "approve", "ask", "chat", "sessions", "check", "console", "cycle", "doctor", "down", "drill", "shell"),
    *("exec", "logs", "forward", "forget", "init", "memory", "outputs", "plan", "rename", "restart", "restore", "run"),
    *("sandbox", "sbom", "schema", "status", "timings", "up", "upgrade", "rollback", "verify"),
    *("backup", "schedule", "secrets", "template"),
)
_ELSEWHERE: Final = {
    **{"approve": "check", "doctor": "verify", "rollback": "upgrade", "timings": "status"},
    **dict.fromkeys(("ask", "sessions"), "chat"),
    **dict.fromkeys(("console", "sbom", "schema"), "outputs"),
    **dict.fromkeys(("cycle", "down", "plan", "restart"), "up"),
    **dict.fromkeys(("drill", "memory"), "backup"),
    **dict.fromkeys(("exec", "forward", "logs", "run", "shell"), "enter"),
}


def import_verbs(asked: str | None = None) -> None:
    """Import the module of a verb, or all of them if there is no such verb. A module registers its commands."""
    for name in [asked] if asked in _VERBS else _VERBS:
        import_module(f"paddock.cli.{_ELSEWHERE.get(name, name)}")


def main() -> None:
    """Run the command line. Every error is printed as a message with an exit code, without a traceback."""
    import_verbs(next((word for word in sys.argv[1:] if not word.startswith("-")), None))
    from paddock.base.secret import MaskedStream

    # The handlers raise, so that `finally` blocks end the processes that were started.
    for number, handler in ((signal.SIGINT, _interrupted), (signal.SIGTERM, _ended), (signal.SIGHUP, _ended)):
        # nohup, and a shell for its background jobs, set signals to be ignored. Keep that.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
    # The mask covers everything that verbs, libraries and tracebacks print.
    sys.stdout, sys.stderr = MaskedStream(sys.stdout), MaskedStream(sys.stderr)
    _name_shell(sys.argv[1:])
    try:
        app(prog_name="paddock")
    except PaddockError as error:
        _tell(error.message, error.hint)
        _trace()
        sys.exit(error.exit_code)
    except SystemExit as end:
        if end.code == 130:  # typer's exit code for Ctrl-C
            print("\nstopped; run the same command again to continue", file=sys.stderr)
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.FAILED)
    except OSError as error:
        if not is_full(error):
            _give_up(error)
        full = disk_full_error(error)
        _tell(full.message, full.hint)
        _trace()
        sys.exit(full.exit_code)
    except Exception as error:  # noqa: BLE001  Python's own traceback would not be masked
        _give_up(error)


def _name_shell(arguments: list[str]) -> None:
    """Let `--show-completion` take the name of a shell. Without one, typer takes the shell that runs it."""
    if arguments[:1] == ["--show-completion"] and len(arguments) == 2:
        os.environ["_PADDOCK_COMPLETE"] = f"source_{arguments[1]}"  # as typer's own scripts ask for completions


def _give_up(error: Exception) -> NoReturn:
    hint = None if _debug else "this is a bug in Paddock; `paddock --debug …` prints a traceback"
    _tell(f"unexpected {type(error).__name__}: {error}", hint)
    _trace()
    sys.exit(Exit.FAILED)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Pass Ctrl-C on to child processes: they run in sessions of their own and do not get it from the terminal."""
    process.forward_signal(number)
    signal.default_int_handler(number, frame)


def _ended(number: int, _frame: FrameType | None) -> None:
    process.forward_signal(number)
    sys.exit(128 + number)


def _tell(message: str, hint: str | None) -> None:
    # Further lines are indented, so that no text from a machine can look like a hint.
    print("error: " + message.replace("\n", "\n       "), file=sys.stderr)
    for line in hint.split("\n") if hint else ():
        print(f" hint: {line}", file=sys.stderr)


def _trace() -> None:
    if _debug:
        import traceback

        traceback.print_exc()
