"""One ssh connection for several commands on a machine.

Most of the time of a short command is spent on connecting: the key exchange alone takes each side a tenth of a second.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from paddock import process
from paddock.guests.ssh import SshGuest

_CONNECT_SECONDS: Final = 15.0


class SharedConnection:
    """A connection that commands of this process use. A command for which it has ended connects by itself.

    It is no connection of the person's own ssh client: its socket is in a new folder that only this account can enter.
    It ends with this process, also if that is killed: its program on the machine ends when its input does.
    """

    def __init__(self, guest: SshGuest) -> None:
        self._opened = ExitStack()
        folder = self._opened.enter_context(tempfile.TemporaryDirectory(prefix="paddock-"))
        self.control = Path(folder) / "control"
        # In a session of its own: Ctrl-C ends the commands, and this when the run ends.
        self._child = self._opened.enter_context(
            process.started(
                guest.sharing(self.control, ["cat"]),
                own_session=True,
                stdin=process.PIPE,
                stdout=process.DEVNULL,
                stderr=process.DEVNULL,
            )
        )

    @classmethod
    def opened(cls, guest: SshGuest) -> Self:
        """Return a connection that is ready. If there is none, commands connect by themselves and say why they fail."""
        made = cls(guest)
        made.ready()
        return made

    def ready(self) -> Path:
        """Wait until the connection is open, or has failed; return its socket."""
        end = time.monotonic() + _CONNECT_SECONDS
        while not self.control.exists() and self._child.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        return self.control

    @property
    def is_open(self) -> bool:
        """Whether commands can use the connection."""
        return self.control.exists() and self._child.poll() is None

    def close(self) -> None:
        """End the connection."""
        self._opened.close()
