"""A doctest for a shell: run the commands of a page in order, and compare what they print with what the page says.

A block ```console has commands after ``$ `` (continued after ``> ``) and below each its output. A line ``…`` stands for
any lines. A block ```sh has commands that must succeed, whatever they print. An answer at the end of a question
(``[y/N]: y``) is given to the command. Times, sizes, ids and addresses are masked, see `MASKS`. The page may leave out
what a command prints to stderr. PADDOCK_GOLDEN=write rewrites outputs that differ.

``tests/documented.yaml`` says for each block of the executed pages which stage runs it, or why none can.
"""

from __future__ import annotations

import difflib
import os
import re
import selectors
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = ROOT / "tests/documented.yaml"
ANY: Final = "…"
PROGRESS: Final = "  ✓ "
BEGINS: Final = "  … "  # a step that begins; on a terminal the line of its end replaces it
_BLOCK: Final = re.compile(r"^(?P<indent> *)```(?P<kind>console|sh)\n(?P<text>.*?)^ *```", re.MULTILINE | re.DOTALL)
_ANSWER: Final = re.compile(r"(\[y/N\]: )(\w+)$", re.MULTILINE)

# What differs between two runs, and what stands for it in a comparison. The first that matches wins.
MASKS: Final = tuple(
    (re.compile(pattern), shown)
    for pattern, shown in (
        (r"\b\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(Z|\+00:00)", "TIME"),
        (r"\b((Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?( UTC)?", "TIME"),
        (r"\b\d+:\d\d:\d\d\b", "0 s"),
        (r"\b((\d+d )?\d+h )?\d+m( \d+s)?\b|\b\d+(\.\d+)? (s|min)\b|\b\d+h \d+m\b", "0 s"),
        (r"\b\d+(\.\d+)? ?(B|KiB|MiB|GiB)(?!\w)", "SIZE"),
        (r"\b\d+ (files|messages|checks|requests|steps)\b", r"N \1"),
        (r"SHA256:[\w+/=…]+", "FINGERPRINT"),
        (r"\b\d{1,3}(\.\d{1,3}){3}\b", "ADDRESS"),
        (r"\b(pet|machine|template|container|builder) \d+\b", r"\1 ID"),
        (r"\bvm-\d+-disk-\d+\b", "VOLUME"),
        (r"\b[0-9a-f]{12,64}\b", "HASH"),
        (r"(?<=  )\d+(?=  |$)", "N"),  # a number that is a cell of a table
        (r" {2,}", "  "),
    )
)


@dataclass(frozen=True)
class Block:
    """A block of a page with commands."""

    page: str
    name: str  # the heading above it, and which block below that heading
    kind: str
    indent: str
    text: str
    start: int  # where its text begins in the page

    def commands(self) -> list[tuple[str, list[str]]]:
        """Return the commands, each with the lines that it is said to print."""
        found: list[tuple[str, list[str]]] = []
        for line in (each.removeprefix(self.indent) for each in self.text.splitlines()):
            if self.kind == "sh":
                if line.strip() and not line.startswith("#"):
                    found.append((line, []))
            elif line.startswith("$ "):
                found.append((line[2:], []))
            elif line.startswith("> ") and not found[-1][1]:
                found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
            else:
                found[-1][1].append(line)
        return found


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page that have commands, in order."""
    text = (ROOT / page).read_text()
    found: list[Block] = []
    for match in _BLOCK.finditer(text):
        heading = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text[: match.start()], flags=re.M | re.S), re.M)
        above = heading[-1] if heading else page
        number = 1 + sum(each.name.rpartition(" ")[0] == above for each in found)
        name = f"{above} {number}"
        found.append(Block(page, name, match["kind"], match["indent"], match["text"], match.start("text")))
    return found


def table() -> dict[str, Any]:
    """Return the table of the executed pages."""
    return dict(YAML(typ="safe").load(TABLE))


def masked(text: str) -> str:
    for pattern, shown in MASKS:
        text = pattern.sub(shown, text)
    return text.strip()


def matches(said: list[str], printed: list[str]) -> bool:
    """Whether the printed lines are what the page says, apart from what is masked."""
    parts = [r"(?:.*\n)*" if masked(line) == ANY else _pattern(line) for line in said]
    return re.fullmatch("".join(parts), "".join(f"{masked(line)}\n" for line in printed)) is not None


def _pattern(line: str) -> str:
    """Return a pattern for a line. A ``…`` inside it stands for any text."""
    return ".*".join(re.escape(part) for part in masked(line).split(ANY)) + r"\n"


@dataclass
class Shell:
    """A shell in which the commands of a stage run, one after the other, with a folder and an environment."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    shown: tuple[tuple[str, str], ...] = ()  # what the page writes instead of a text: (text, instead)
    seconds: float = 600

    def run(self, command: str, answers: str = "") -> tuple[int, list[str], list[str]]:
        """Run a command. Return its exit code, what it printed to stdout, and all that it printed."""
        kept = self.folder / ".shell"
        kept.mkdir(exist_ok=True)
        again = f'[ ! -e {kept}/env ] || . {kept}/env 2>/dev/null; cd "$(cat {kept}/cwd 2>/dev/null || pwd)"\n'
        save = f"trap 'declare -px >{kept}/env; pwd >{kept}/cwd' EXIT\n"
        process = subprocess.Popen(
            ["bash", "-c", f"{again}{save}{command}"],
            cwd=self.folder,
            env={**self.environment, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
            **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),  # type: ignore[call-overload]
        )
        process.stdin.write(answers.encode())
        process.stdin.close()
        pieces = list(_read(process))
        code = process.wait(self.seconds)
        out = "".join(text for stream, text in pieces if stream == "out")
        return code, self._lines(out, answers), self._lines("".join(text for _, text in pieces), answers)

    def _lines(self, text: str, answers: str) -> list[str]:
        """Return lines as the page shows them: with the answers that were given, and with shorter paths."""
        for answer in answers.split():
            text = re.sub(r"(\[y/N\]: )(?!\w+\n)", rf"\g<1>{answer}\n", text, count=1)
        for long, short in self.shown:
            text = text.replace(long, short)
        return [line.rstrip() for line in text.splitlines() if not line.startswith(BEGINS)]


def _read(process: subprocess.Popen[bytes]) -> Iterator[tuple[str, str]]:
    """Yield what a process prints, in order."""
    with selectors.DefaultSelector() as ready:
        for name, stream in (("out", process.stdout), ("err", process.stderr)):
            assert stream
            ready.register(stream, selectors.EVENT_READ, name)
        while ready.get_map():
            # A result follows its progress: of two streams that are ready, stderr comes first.
            for key, _ in sorted(ready.select(), key=lambda each: each[0].data):
                data = os.read(key.fd, 65536)
                if not data:
                    ready.unregister(key.fileobj)
                yield key.data, data.decode(errors="replace")


@dataclass
class Difference:
    """A command whose output is not what the page says."""

    block: Block
    command: str
    said: list[str]
    printed: list[str]

    def __str__(self) -> str:
        lines = difflib.unified_diff(
            [masked(line) for line in self.said], [masked(line) for line in self.printed], lineterm="", n=99
        )
        return f"{self.block.page}, {self.block.name}: $ {self.command}\n" + "\n".join(list(lines)[2:])


def run_stage(stage: str, shell: Shell, only: tuple[str, ...] = ()) -> None:
    """Run all blocks that the table gives to a stage, or only those named, and compare their outputs with the pages."""
    write = os.environ.get("PADDOCK_GOLDEN") == "write"
    differences: list[Difference] = []
    for page, rows in table()["pages"].items():
        if not any(row.get("stage") == stage for row in rows.values()):
            continue
        chosen = [each for each in blocks(page) if rows.get(each.name, {}).get("stage") == stage]
        try:
            for block in chosen:
                if not only or block.name in only:
                    for each in _run_block(block, shell, rows[block.name].get("instead", {})):
                        differences.append(each)
        finally:
            if write:  # also if a later command fails
                _rewrite(page, [each for each in differences if each.block.page == page])
    assert write or not differences, "\n\n".join(map(str, differences))


def _run_block(block: Block, shell: Shell, instead: Mapping[str, str]) -> Iterator[Difference]:
    for command, said in block.commands():
        script = instead.get(command.partition(" #")[0].strip(), command)
        answers = "".join(f"{answer}\n" for _, answer in _ANSWER.findall("\n".join(said)))
        code, out, everything = shell.run(script, answers)
        print(f"$ {script}\n" + "\n".join(everything), file=sys.stderr)
        fails = any(line.startswith("error: ") or "did not pass" in line for line in said)
        assert (code != 0) is fails, f"{block.page}, {block.name}: $ {script} ended with {code}\n" + "\n".join(
            everything
        )
        if block.kind == "console" and not matches(said, everything) and not matches(said, out):
            progress = any(line.startswith(PROGRESS) for line in said) or not out
            yield Difference(block, command, said, everything if progress else out)


def _rewrite(page: str, differences: list[Difference]) -> None:
    """Write what the commands printed into the page."""
    path = ROOT / page
    text = path.read_text()
    for each in reversed(differences):
        indent = each.block.indent
        begin = text.index(f"{indent}$ {each.command.splitlines()[0]}\n", each.block.start)
        before = "".join(f"{indent}{line}".rstrip() + "\n" for line in each.said)
        after = "".join(f"{indent}{line}".rstrip() + "\n" for line in each.printed)
        text = text[:begin] + text[begin:].replace(before, after, 1) if before else _added(text, begin, each, after)
    path.write_text(text)


def _added(text: str, begin: int, each: Difference, after: str) -> str:
    end = begin
    for _ in each.command.splitlines():
        end = text.index("\n", end) + 1
    return text[:end] + after + text[end:]


def command_on_path(folder: Path) -> dict[str, str]:
    """Put the commands `paddock` and `pvebox` of this checkout into a folder, and return a PATH with it first."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    source = shlex.quote(str(ROOT / "src"))
    for name in ("paddock", "pvebox"):
        program = programs / name
        python = shlex.quote(sys.executable)
        program.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {python} -m {name} "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}"}
