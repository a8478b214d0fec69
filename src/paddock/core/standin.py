"""Run a stand-in for a model on the machine of a copy, for as long as a run needs it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from paddock.base.process import CommandFailed
from paddock.channels import Guest
from paddock.channels.onboard import begun, started
from paddock.onboard import standin as onboard


class StandIn:
    """A stand-in for a model. It ends with this object, and with this process: its standard input ends then."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._running = ExitStack()

    @property
    def url(self) -> str:
        """The address for programs on the machine."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self, guest: Guest) -> None:
        """Start it on a machine, in place of one that was started before."""
        self._running.close()
        answer = begun(self._running.enter_context(guest.piped(started())), onboard.StandIn(self.port))
        if answer.said != ["ready"]:
            raise CommandFailed(f"starting a stand-in for the model on {guest.name}", answer.result)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
