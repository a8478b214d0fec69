"""Trying a case: the command with its fault, what a person does then, and what is left in the end."""

from __future__ import annotations

import asyncio
import difflib
import itertools
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from faults.api_faults import Case, FaultyNode, ImpatientSleep
from faults.lives import BEGINNINGS, LIVES, write
from faults.world import ORPHANS, Said, World
from places.node import Node, Sent
from pvebox.cluster import faults as pvebox_faults

_RUNS: Final = 5  # that a command may need after a fault, with what a person does in between
_COMMAND: Final = re.compile(r": ((?:pct|pveum) [a-z][^\n]*)")
_UNLOCK: Final = re.compile(r"pct unlock (\d+)")
_LOCKED: Final = re.compile(r"container (\d+) \([^)]*\) has been locked")
_LEFT: Final = re.compile(r"`pct config (\d+)`, as root on its node")
_TEXTS: Final = (
    (re.compile(r"\b(GET|POST|PUT|DELETE) /\S+?(?=: |$)", re.MULTILINE), "REQUEST"),
    (re.compile(r"the task \w+ failed"), "the task TASK failed"),
    (re.compile(r"\n(?! hint: |  ✗ )[^\n]*"), ""),  # the log of a task
    (re.compile(r"\S+/[0-9a-f]{8}\b"), "RUN"),
    (re.compile(r"SHA256:\S+"), "KEY"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "HASH"),
    (re.compile(r"\b(?:9|1|2)\d\d\b(?! s\b)"), "N"),
)


@dataclass(frozen=True)
class Result:
    """How a case ended."""

    case: Case
    first: Said  # the command with its fault
    left: str = ""  # what was still wrong in the end
    debris: int = 0  # empty volumes that a crash of the node has left, which nobody can tell from volumes of others

    @property
    def recovered(self) -> bool:
        return self.first.code == 0

    @property
    def outcome(self) -> str:
        """The exit code and the sentence, without names and numbers."""
        if self.recovered:
            return "recovered"
        text = self.first.sentence
        for pattern, name in _TEXTS:
            text = pattern.sub(name, text)
        return f"exit {self.first.code}: {text.removeprefix('error: ')}"


class Lab:
    """Worlds in which the commands have not run yet, and copies of them to try a fault in."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        self._numbers = itertools.count()
        self._worlds: dict[str, World] = {}
        self._before: dict[str, World] = {}
        self._ends: dict[str, dict[str, Any]] = {}
        self.sent: dict[str, list[Sent]] = {}

    def learn(self, name: str) -> list[Sent]:
        """Return the requests of a command, and remember how it ends without a fault."""
        if name not in self.sent:
            world = self._begin(LIVES[name].begins)
            if (file := LIVES[name].file) is not None:
                world = world.copy(self._new_folder(), Node)
                write(world, **file)
            self._before[name] = world
            with self.copy(name) as usual:
                said = usual.run(*LIVES[name].words)
                assert said.code == 0, (name, said.err)
                self.sent[name] = list(usual.node.sent)
                self._ends[name] = self._end(name, usual)
        return self.sent[name]

    def _begin(self, name: str) -> World:
        """Return the world of that name, which is made once and only copied afterwards."""
        if name not in self._worlds:
            beginning, folder = BEGINNINGS[name], self._new_folder()
            if beginning.of:
                world = self._begin(beginning.of).copy(folder, Node)
            else:
                world = World.new(folder, self._monkeypatch)
            beginning.make(world)
            self._worlds[name] = world
        return self._worlds[name]

    def attempt(self, case: Case) -> Result:
        """Let the fault happen to the command; then finish it as a person would."""
        self.learn(case.life)
        with self.copy(case.life) as world:
            node = world.node
            assert isinstance(node, FaultyNode)
            node.arm(case)
            with self._monkeypatch.context() as patch:
                patch.setattr(pvebox_faults, "asyncio", ImpatientSleep(asyncio, lambda: node.deadline))
                first = world.run(*LIVES[case.life].words)
            if not node.met:
                return Result(case, first, "the fault did not happen: the command does not send this request")
            node.end_fault()
            said = self._finish(case.life, world, first)
            if said.code and not (said.code == 2 and LIVES[case.life].finish):
                return Result(case, first, f"it does not end after {_RUNS} runs: {said.sentence}")
            usual, found = self._ends[case.life], self._end(case.life, world)
            debris = len(found[ORPHANS]) if case.fault.crashes else 0
            return Result(case, first, _difference(usual, {**found, ORPHANS: []} if debris else found), debris)

    def _finish(self, name: str, world: World, said: Said) -> Said:
        """Run the command until it succeeds; a command may also say that only `finish` is left to do."""
        for _ in range(_RUNS):
            if said.code == 0 or (said.code == 2 and LIVES[name].finish):
                break
            _obey(world, said)
            said = world.run(*LIVES[name].words)
        return said

    def _end(self, name: str, world: World) -> dict[str, Any]:
        life = LIVES[name]
        if life.finish:
            said = world.run(life.finish)
            assert said.code == 0, said.err
        proven = world.run(*life.proof) if life.proof else Said(0, "", "")
        shape = world.shape()
        return {"nothing is left to do": proven.code == 0 or proven.out + proven.sentence, **shape}

    @contextmanager
    def copy(self, name: str) -> Iterator[World]:
        """A world in which the command has not run yet. It is removed afterwards: there are hundreds of them."""
        world = self._before[name].copy(self._new_folder(), FaultyNode)
        try:
            yield world
        finally:
            shutil.rmtree(world.folder, ignore_errors=True)

    def _new_folder(self) -> Path:
        return self._folder / f"world{next(self._numbers)}"


def _obey(world: World, said: Said) -> None:
    """Run the commands for root that a message has, and those that docs/proxmox.md has for it."""
    for match in _LOCKED.finditer(said.sentence):
        world.node.shell(f"pct unlock {match[1]}")
    for vmid in {int(match[1]) for match in _LEFT.finditer(said.sentence)}:
        if vmid in world.node.vmids and _is_remainder(world.node.config(vmid)):
            world.node.shell(f"pct unlock {vmid}")
            world.node.shell(f"pct destroy {vmid}")
    for match in _COMMAND.finditer(said.sentence):
        line = match[1].split("`")[0]
        locked = _UNLOCK.search(line)
        if locked and not world.is_locked(int(locked[1])):
            continue  # the message says what to look for first
        for command in line.split(" && "):
            world.node.shell(command)


def _is_remainder(config: Mapping[str, Any]) -> bool:
    """Whether docs/proxmox.md says that root may remove a container with this configuration."""
    disposable = re.search(r"role=(cattle|builder|reader) ", str(config.get("description"))) is not None
    volumes = any(re.fullmatch(r"mp\d+", key) for key in config)
    return config.get("lock") == "create" and (set(config) == {"lock"} or (disposable and not volumes))


def _difference(expected: dict[str, Any], found: dict[str, Any]) -> str:
    """Return how the end differs from the end of a run without a fault, or nothing."""
    before, after = (json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (expected, found))
    return "\n".join(line for line in difflib.unified_diff(before, after, "usual", "found", lineterm="", n=1))
