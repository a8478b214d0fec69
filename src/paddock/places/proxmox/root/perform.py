"""Performing root's work: try it with the token, run it as root over ssh, or ask a person and wait."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from paddock.base import clock
from paddock.base.clock import Wait
from paddock.base.errors import NeedsPerson, PaddockError, Refused
from paddock.channels import Guest, Unreachable
from paddock.places.proxmox.actions import RootWork
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.api.errors import RootOnly
from paddock.places.proxmox.node.observation import LxcContainer
from paddock.places.proxmox.root import work as root_work

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 20.0
_REMIND_SECONDS: Final = 60
_RESTART_SECONDS: Final = 20  # wait for a person's own restart, once the other commands are done
_REBOOT_SECONDS: Final = 120


class RootWorker:
    """Performs the action ``RootWork``."""

    def __init__(self, client: Client, root: Guest | None, reporter: Callable[[str], None], *, patient: bool) -> None:
        self._client = client
        self._root = root
        self._reporter = reporter
        self._patient = patient

    def perform(self, work: RootWork, read: Callable[[int], LxcContainer]) -> None:
        """Return once the work is done, and a machine that was running has been restarted.

        ``read`` raises unless the number still belongs to the container that was planned for.
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
            hint = "then run `paddock up` again; `paddock console` prints these commands again"
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
        """Try to set the features with the token, once: reports differ on whether Proxmox allows it."""
        try:
            params = {"features": work.features, "digest": str(found.config["digest"])}
            self._client.send("PUT", f"{path}/config", params)
        except RootOnly as error:
            self._reporter(f"the token may not set the features: {error.reason}")

    def _run_as(self, root: Guest, work: RootWork, lines: Sequence[str], read: Callable[[int], LxcContainer]) -> None:
        try:
            self._refuse_disks(root, work)
            for line in lines:
                read(work.vmid)
                self._run(root, line)
        except Unreachable as error:
            hint = "your ssh must connect without asking; `paddock console` prints the commands to run there by hand"
            raise Unreachable(error.message, hint=hint) from None

    def _refuse_disks(self, root: Guest, work: RootWork) -> None:
        for bind in work.binds:
            if root.run(["sh", "-c", f"mountpoint -q {shlex.quote(bind.host)}"]).ok:
                raise Refused(
                    f"{bind.host} is the mount point of a disk on {root.name}, not a directory for an agent",
                    hint="write a directory below it",
                )

    def _run(self, root: Guest, line: str) -> None:
        # A failed pct exits with 255, which is also the exit code of an ssh that cannot connect.
        result = root.run(["sh", "-c", f"{line} || exit 1"], deadline=300)
        if not result.ok:
            said = result.err.strip() or result.out.strip()
            raise PaddockError(
                f"`{line}` failed on {root.name}: {said}",
                hint="the commands before it took effect; `paddock up` continues from there",
            )

    def _wait(
        self, work: RootWork, first: LxcContainer, missing: Sequence[str], read: Callable[[int], LxcContainer]
    ) -> None:
        """Wait for a person, and report the differences that are left."""
        self._tell(["waiting until this is done; Ctrl-C stops waiting, and `paddock up` continues later"])
        told, pause, wait = list(missing), _FIRST_PAUSE, Wait(_REMIND_SECONDS)
        while missing:
            clock.sleep(pause)
            pause = min(pause * 1.3, _LONGEST_PAUSE)
            seen = read(work.vmid)
            displaced = root_work.displaced(first, seen)
            seen = replace(seen, config={**seen.config, **displaced})
            missing = [
                *(_put_back(work.vmid, *entry) for entry in displaced.items()),
                *root_work.differences(work, seen),
            ]
            changed = missing != told
            # A command that failed changes nothing here, and its message is in the other window.
            if missing and (changed or wait.is_over):
                told, wait = list(missing), Wait(_REMIND_SECONDS)
                pause = _FIRST_PAUSE if changed else pause
                left = root_work.commands(root_work.remaining(work, seen))
                word = "not yet" if changed else "still missing"
                self._tell([*(f"{word}: {each}" for each in missing), "what is left:", *_indented(left)])

    def _tell(self, lines: Sequence[str]) -> None:
        for line in lines:
            self._reporter(line)

    def _await_restart(self, path: str, before: int) -> None:
        """Wait for the restart that is one of the commands, so that it does not happen later."""
        wait = Wait(_RESTART_SECONDS)
        while not wait.is_over:
            if self._process(path) not in (before, None):
                return
            clock.sleep(0.3)
        self._reporter("the machine was not restarted; restarting it")

    def _process(self, path: str) -> int | None:
        """Return the node's pid of the machine's first process, which changes with every start."""
        pid = self._client.get(f"{path}/status/current").get("pid")
        return int(pid) if pid else None


def _put_back(vmid: int, key: str, value: str) -> str:
    own = value.partition(",")[0]
    return f"{key} must be the machine's own volume {own}; put it back: pct set {vmid} -{key} {shlex.quote(value)}"


def _asking(node: str, lines: Sequence[str]) -> list[str]:
    return [f"Proxmox lets root alone do this; run in the shell of node {node}:", *_indented(lines)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in root_work.chained(lines)]
