"""The acknowledgements of a writer, kept outside its machine, and what they prove."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_MOST_FAULTS: Final = 20


class Ledger:
    """Takes the acknowledgements of one writer after another. Each writer continues where the one before ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writers = 0
        self._newest = 0  # the last writer that acknowledged something
        self.last = 0
        self.address = ""  # of the last writer
        self.faults: list[str] = []

    def new_writer(self, address: str = "") -> int:
        """Return the number of a writer that begins."""
        with self._lock:
            self._writers += 1
            self.address = address
            return self._writers

    @property
    def writers(self) -> int:
        return self._writers

    def acknowledge(self, writer: int, number: int) -> None:
        """Take the acknowledgement of a record, and note what it proves to be wrong."""
        with self._lock:
            if writer < self._newest:
                self._note(f"writer {writer} wrote record {number} while writer {self._newest} was at work")
            elif number <= self.last:
                self._note(f"record {number} was written again: the records from {number} to {self.last} were lost")
            elif writer == self._newest and number != self.last + 1:
                self._note(f"record {number} follows record {self.last}")
            self._newest = max(writer, self._newest)
            self.last = number

    def _note(self, fault: str) -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(fault)


@contextmanager
def listening(ledger: Ledger, host: str) -> Iterator[int]:
    """Take acknowledgements over the network, a line each. Yields the port."""

    class Connection(socketserver.StreamRequestHandler):
        timeout = 60  # a destroyed machine does not close its connection

        def handle(self) -> None:
            writer = ledger.new_writer(str(self.client_address[0]))
            with suppress(OSError):
                for line in self.rfile:
                    if line.endswith(b"\n"):  # a connection that is cut off can end in the middle of a number
                        ledger.acknowledge(writer, int(line))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server((host, 0), Connection) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
