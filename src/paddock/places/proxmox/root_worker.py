"""Attending to what only root may do: tried by the token, run over ssh, or shown to a person and waited for."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from paddock.errors import NeedsPerson, PaddockError, Refused
from paddock.guests import Guest, Unreachable
from paddock.places.proxmox import root_work
from paddock.places.proxmox.actions import RootWork
from paddock.places.proxmox.client import Client
from paddock.places.proxmox.errors import RootOnly
from paddock.places.proxmox.seen import LxcContainer

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 20.0
_RESTART_SECONDS: Final = 20  # for a person's own restart to begin, once the rest of the commands is seen to be done
_REBOOT_SECONDS: Final = 120


class RootWorker:
    """Sees to it that root's work gets done."""

    def __init__(self, client: Client, root: Guest | None, reporter: Callable[[str], None], *, patient: bool) -> None:
        self._client = client
        self._root = root
        self._reporter = reporter
        self._patient = patient

    def perform(self, work: RootWork, read: Callable[[int], LxcContainer]) -> None:
        """Return once the work is seen to be done, and the machine was restarted if it ran.

        ``read`` raises unless a number is still that of the container that was planned for.
        """
        path = f"/nodes/{self._client.node}/lxc/{work.vmid}"
        first = read(work.vmid)
        process = self._process(path)
        if work.features:
            self._try_features(path, first, work)
        seen = read(work.vmid)
        if work.template:
            read(work.template)
        missing = root_work.differences(work, seen)
        lines = root_work.commands(root_work.remaining(work, seen))
        if missing and self._root:
            self._run_as(self._root, work, lines, read)
            missing = root_work.differences(work, read(work.vmid))
            if missing:
                raise PaddockError(f"{self._root.name} ran the commands, but {'; '.join(missing)}")
        elif missing and not self._patient:
            hint = "then run `paddock up` again; `paddock console` shows them again"
            raise NeedsPerson("\n".join(_asking(self._client.node, lines)), hint=hint)
        elif missing:
            self._tell(_asking(self._client.node, lines))
            self._wait(work, first, missing, read)
            if process is not None:
                self._await_restart(path, process)
        if process is not None and process == self._process(path):
            read(work.vmid)
            self._client.task("POST", f"{path}/status/reboot", {"timeout": _REBOOT_SECONDS})

    def _try_features(self, path: str, found: LxcContainer, work: RootWork) -> None:
        """Some say that a token can; Proxmox' code says that it cannot. It is asked once."""
        try:
            params = {"features": work.features, "digest": str(found.config["digest"])}
            self._client.send("PUT", f"{path}/config", params)
        except RootOnly as error:
            self._reporter(f"the token may not: {error.reason}")

    def _run_as(self, root: Guest, work: RootWork, lines: Sequence[str], read: Callable[[int], LxcContainer]) -> None:
        try:
            self._refuse_disks(root, work)
            for line in lines:
                read(work.vmid)
                self._run(root, line)
        except Unreachable as error:
            hint = "your own ssh must get there without a question; `paddock console` shows what to run there by hand"
            raise Unreachable(error.message, hint=hint) from None

    def _refuse_disks(self, root: Guest, work: RootWork) -> None:
        for bind in work.binds:
            if root.run(["sh", "-c", f"mountpoint -q {shlex.quote(bind.host)}"]).ok:
                raise Refused(
                    f"{bind.host} is where a disk is mounted on {root.name}, and not a directory of the agent's own",
                    hint="write a directory below it",
                )

    def _run(self, root: Guest, line: str) -> None:
        # A pct that fails ends with 255, which ssh ends with where there is no way to the node.
        result = root.run(["sh", "-c", f"{line} || exit 1"], deadline=300)
        if not result.ok:
            said = result.err.strip() or result.out.strip()
            raise PaddockError(
                f"`{line}` failed on {root.name}: {said}",
                hint="what ran before it stays; `paddock up` goes on from there",
            )

    def _wait(
        self, work: RootWork, first: LxcContainer, missing: Sequence[str], read: Callable[[int], LxcContainer]
    ) -> None:
        """Wait for a person; whatever they do that is not the work is told."""
        self._tell(["waiting until that is done; Ctrl-C ends the waiting, and `paddock up` goes on later"])
        told, pause = list(missing), _FIRST_PAUSE
        while missing:
            time.sleep(pause)
            pause = min(pause * 1.3, _LONGEST_PAUSE)
            seen = read(work.vmid)
            displaced = root_work.displaced(first, seen)
            seen = replace(seen, config={**seen.config, **displaced})
            missing = [
                *(_put_back(work.vmid, *entry) for entry in displaced.items()),
                *root_work.differences(work, seen),
            ]
            if missing and missing != told:
                told, pause = list(missing), _FIRST_PAUSE
                left = root_work.commands(root_work.remaining(work, seen))
                self._tell([*(f"not yet: {each}" for each in missing), "what is left:", *_indented(left)])

    def _tell(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._reporter(line)

    def _await_restart(self, path: str, before: int) -> None:
        """Give the restart that belongs to the commands time to happen, so that it does not come later."""
        end = time.monotonic() + _RESTART_SECONDS
        while time.monotonic() < end:
            if self._process(path) not in (before, None):
                return
            time.sleep(0.3)
        self._reporter("the machine was not restarted; doing it")

    def _process(self, path: str) -> int | None:
        """The number of the machine's first process on the node: another one after every start."""
        pid = self._client.get(f"{path}/status/current").get("pid")
        return int(pid) if pid else None


def _put_back(vmid: int, key: str, value: str) -> str:
    own = value.partition(",")[0]
    return f"{key} is the machine's own {own}; put it back: pct set {vmid} -{key} {shlex.quote(value)}"


def _asking(node: str, lines: Sequence[str]) -> list[str]:
    return [f"Proxmox lets root alone do this, in the shell of node {node}:", *_indented(lines)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
