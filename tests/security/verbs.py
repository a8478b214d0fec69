"""Every verb of the command line, in an order in which most of them work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cli.test_every_verb import verbs

_FIRST: Final = (("check",), ("approve",), ("plan",), ("up",), ("backup", "make"))
_LAST: Final = (("restart",), ("cycle",), ("restore",))
_END: Final = (("down",), ("forget",))
# `run` has a test of its own, and `secrets get` has to print a secret. The others wait for a person.
_LEFT_OUT: Final = {("run",), ("secrets", "get"), ("sandbox",), ("chat",), ("shell",), ("forward",)}
_WORDS: Final = {
    ("approve",): ["--yes"],
    ("exec",): ["bee", "--", "env"],
    ("forget",): ["bee", "--name", "bee"],
    ("rename",): ["bee", "wasp", "--dry-run"],
    ("restore",): ["bee", "--yes"],
    ("secrets", "set"): ["s"],
    ("secrets", "rm"): ["t"],
    ("verify",): ["bee"],
}


def verbs_of_a_life(*, json: bool) -> Iterator[list[str]]:
    """Yield the words of each verb that leaves the agent deployed, with --json where a verb has that."""
    found = verbs()
    middle = [path for path in found if path not in {*_FIRST, *_LAST, *_END, *_LEFT_OUT}]
    for path in (*_FIRST, *middle, *_LAST):
        yield [*_words(path, found[path]), *(["--json"] if json and _has(found[path], "--json") else [])]


def verbs_of_the_end() -> Iterator[list[str]]:
    """Yield the words of the verbs that remove the agent."""
    found = verbs()
    yield from (_words(path, found[path]) for path in _END)


def _words(path: tuple[str, ...], command: Any) -> list[str]:
    needed = [each for each in command.params if each.param_type_name == "argument" and each.required]
    given = {"prompt": "hello", "folder": "new"}
    return ["--debug", *path, *_WORDS.get(path, [given.get(each.name, "bee") for each in needed])]


def _has(command: Any, option: str) -> bool:
    return any(option in each.opts for each in command.params)
