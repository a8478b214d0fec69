"""The page docs/verbs.md: every verb with its usage, options and examples, from the command line's own help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

OPENING: Final = """# Verbs

Every verb with its options, as `paddock VERB --help` prints them. This page is generated from the command line;
[cli.md](cli.md) explains what the verbs have in common, and the longer stories. Results go to stdout, progress to
stderr.
"""


def verbs_page(group: Any) -> str:
    """Return the page as Markdown."""
    return OPENING + "".join(f"\n{section}" for section in _sections(group, "paddock"))


def _sections(group: Any, above: str) -> Iterator[str]:
    yield from [_options(group, group.make_context(above, [], resilient_parsing=True))] if above == "paddock" else []
    for name, command in sorted(group.commands.items()):
        path = f"{above} {name}"
        if hasattr(command, "commands"):
            yield f"## `{path}`\n\n{_prose(command.help)}\n"
            yield from _sections(command, path)
        else:
            yield _section(command, path)


def _section(command: Any, path: str) -> str:
    context = command.make_context(path, [], resilient_parsing=True)
    level = "##" if path.count(" ") == 1 else "###"
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    examples = re.findall(r"^Example: (.+)$", command.epilog or "", re.MULTILINE)
    shown = "".join(f"{example}\n" for example in examples)
    parts = [f"{level} `{path}`", _prose(command.help), f"```text\n{usage}\n```", _options(command, context).strip()]
    return "\n\n".join([*parts, f"```sh\n{shown}```"]) + "\n"


def _options(command: Any, context: Any) -> str:
    """Return a table of the arguments and options."""
    shown = [each for each in command.get_params(context) if each.name != "help"]
    rows = [record for each in shown if (record := each.get_help_record(context))]
    lines = [f"| `{_cell(names)}` | {_cell(_prose(text))} |" for names, text in rows]
    return "\n".join(["| option | what it does |", "|---|---|", *lines]) + "\n"


def _prose(text: str | None) -> str:
    """Return a help text as Markdown: what looks like a tag or a list of stars is text."""
    return re.sub(r"\s*\n(?!\n)\s*", " ", (text or "").strip()).replace("<", "&lt;").replace("*", "\\*")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
