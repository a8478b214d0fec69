"""The command line: one small module per verb; parses, calls, prints."""

from __future__ import annotations

import os
import signal
import sys

import typer

from paddock import __version__
from paddock.errors import Exit, PaddockError

_EPILOG = "Exit codes: 0 done, 1 failed, 2 bad input, 3 changes pending (plan --exit-code), 4 needs a person."

app = typer.Typer(
    name="paddock",
    help="Disposable compute, durable memory: AI agents on Proxmox or any Linux host, from one file.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> None:
    """Run the command line; what a person can cause ends in a sentence and an exit code, not in a traceback."""
    from paddock.cli import (  # noqa: F401
        ask,
        check,
        cycle,
        doctor,
        down,
        enter,
        forget,
        plan,
        run,
        sandbox,
        status,
        template,
        timings,
        up,
    )

    # As an exception, so that whatever was started is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app()
    except PaddockError as error:
        _tell(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("\nstopped; run the same command again to go on from here", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.FAILED)


def _tell(error: PaddockError) -> None:
    from paddock.secret import mask

    print(mask(f"error: {error.message}"), file=sys.stderr)
    for line in (error.hint or "").splitlines():
        print(mask(f" hint: {line}"), file=sys.stderr)
