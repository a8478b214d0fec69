"""Behaviour that all verbs share: help, options, completion, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from commandline import command_line
from paddock.base.errors import PaddockError

HEAVY = ["httpx", "pydantic", "rich", "ruamel", "ruamel.yaml", "pyrage"]
SHELLS = ["bash", "zsh", "fish"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paddock", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_help_and_version_import_no_heavy_library(option: str) -> None:
    code = f"""
import sys
sys.argv = ["paddock", {option!r}]
from paddock.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end
print(sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout
    assert said.stderr.strip() == "[]"


def commands(group: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*above, name))
        else:
            yield (*above, name), command


def verbs() -> dict[tuple[str, ...], Any]:
    return dict(commands(command_line()))


def test_help_of_every_verb_has_an_example_and_the_exit_codes() -> None:
    found = verbs()
    assert {("up",), ("check",), ("secrets", "get")} <= found.keys()
    for path, command in found.items():
        assert f"paddock {' '.join(path)}" in (command.epilog or ""), path
        assert "Exit codes: 0 done, 1 failed, 2 bad input" in command.epilog, path
        assert command.help, path


# Verbs that change, send or start something have no --json.
NOT_READING = {
    *(
        "adopt",
        "approve",
        "ask",
        "chat",
        "up",
        "down",
        "drill",
        "cycle",
        "rename",
        "restart",
        "restore",
        "rollback",
        "run",
        "init",
        "forget",
        "upgrade",
        "sandbox",
        "sbom",
        "schema",
    ),  # sbom and schema always print JSON
    *("shell", "exec", "logs", "forward"),
    *("secrets set", "secrets rm", "secrets get", "template build", "template refresh", "template prune"),
    "template lock",
    *("backup make", "backup check", "backup prune"),
    *("schedule install", "schedule remove", "schedule run"),
}


def test_every_reading_verb_has_a_json_option() -> None:
    for path, command in verbs().items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert ("--json" in options) == (" ".join(path) not in NOT_READING), path


def test_every_verb_that_reads_the_file_takes_several_files_and_set() -> None:
    for path, command in verbs().items():
        options = {option: parameter for parameter in command.params for option in parameter.opts}
        if "--file" in options and path != ("timings",):  # it shows the runs of a file, and does not read it
            assert options["--file"].multiple, path
            assert "--set" in options, path


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_script_completes_verbs(shell: str) -> None:
    script = run(_PADDOCK_COMPLETE=f"source_{shell}", PROG_NAME="paddock")
    assert script.returncode == 0
    assert "_PADDOCK_COMPLETE" in script.stdout
    words = {
        "bash": {"COMP_WORDS": "paddock che", "COMP_CWORD": "1"},
        "zsh": {"_TYPER_COMPLETE_ARGS": "paddock che"},
        "fish": {"_TYPER_COMPLETE_ARGS": "paddock che", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    assert "check" in run(_PADDOCK_COMPLETE=f"complete_{shell}", **words).stdout


def test_completion_offers_the_agents_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "project: home\nplaces: {here: {host: {}}}\n"
        "agents: {web: {kind: service, place: here, runtime: process, command: [sleep, inf]}}\n"
    )
    for line in (f"paddock up -f {tmp_path}/x.yaml --only w", f"paddock shell -f {tmp_path}/x.yaml w"):
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
        assert run(_PADDOCK_COMPLETE="complete_bash", **words).stdout.split() == ["web"]
        broken = {**words, "COMP_WORDS": line.replace("x.yaml", "none.yaml")}
        assert run(_PADDOCK_COMPLETE="complete_bash", **broken).stdout.strip() == ""


def test_output_has_no_escape_codes_without_a_terminal(tmp_path: Path) -> None:
    for environment in ({}, {"NO_COLOR": "1"}, {"FORCE_COLOR": ""}):
        for arguments in (["--help"], ["check", "-f", str(tmp_path / "none.yaml")], ["timings"], ["no-such-verb"]):
            said = run(*arguments, **environment)
            assert "\x1b" not in said.stdout + said.stderr


def fails(error: Exception) -> Callable[[object], None]:
    def verb(_kinds: object) -> None:
        raise error

    return verb


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Make ``paddock schema`` fail with the given error."""
    from paddock.file import schema

    return lambda error: monkeypatch.setattr(schema, "json_schema", fails(error))


def test_an_error_is_printed_as_a_message_and_a_hint(paddock: Any, failing: Any) -> None:
    failing(PaddockError("it broke", hint="mend it"))
    said = paddock("schema")
    assert (said.code, said.out, said.err) == (1, "", "error: it broke\n hint: mend it\n")


def test_debug_prints_a_traceback(paddock: Any, failing: Any) -> None:
    failing(PaddockError("it broke"))
    said = paddock("--debug", "schema")
    assert said.err.startswith("error: it broke\nTraceback")
    assert "json_schema(KINDS)" in said.err


def test_an_unexpected_exception_is_printed_without_a_traceback(paddock: Any, failing: Any) -> None:
    failing(ZeroDivisionError("division by zero"))
    said = paddock("schema")
    assert said.code == 1
    assert said.err.startswith("error: unexpected ZeroDivisionError: division by zero\n hint: this is a bug in Paddock")
    assert "Traceback" not in said.err
    assert "Traceback" in paddock("--debug", "schema").err


def test_an_unknown_verb_suggests_the_nearest_verb(paddock: Any) -> None:
    said = paddock("chekc")
    assert said.code == 2
    assert "check" in said.err


def test_timings_json_is_empty_without_runs(paddock: Any) -> None:
    assert json.loads(paddock("timings", "--json").out) == []


@pytest.mark.parametrize("words", [["hermes", "-f"], ["-f"], ["make", "hermes", "-f"]])
def test_a_backup_is_made_unless_another_word_is_said(words: list[str]) -> None:
    said = run("backup", *words, "none.yaml")
    assert (said.returncode, said.stderr.splitlines()[0]) == (2, "error: there is no none.yaml")
