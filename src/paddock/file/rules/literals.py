"""Find values that look like secrets, and references ``${NAME}`` that stay unreplaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from paddock.file.tree import Location, Tree, texts

# Endings of names whose values are secrets. Names like `key_env` and `max_tokens` do not match.
_KEY_NAME: Final = re.compile(
    r"(^|[_.-])(api[_-]?key|apikey|secret([_-]?key)?|access[_-]?key|private[_-]?key|master[_-]?key|signing[_-]?key"
    r"|auth[_-]?key|token|passwd|password|passphrase|credentials?|authorization|cookie)$",
    re.IGNORECASE,
)
_KEY_VALUE: Final = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic, OpenRouter and others
    r"|\b(ghp|gho|ghs|github_pat|glpat|hf|xox[abprs]|xapp)[_-][A-Za-z0-9_-]{16,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bAIza[0-9A-Za-z_-]{30,}"
    r"|\b\d{8,10}:[A-Za-z0-9_-]{35}\b"  # Telegram
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\."
    r"|\bAGE-SECRET-KEY-1"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\S+@\S+!\S+=[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # Proxmox
)
_REFERENCE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")

# Another form of a reference, in the settings of some programs.
_OTHER_REFERENCE: Final = re.compile(r"os\.environ/[A-Za-z_][A-Za-z0-9_]*")

_OUTSIDE: Final = "name its source under secrets:"
_NOT_REPLACED: Final = (
    "Paddock does not replace ${…}; use secrets: {NAME: {env: NAME}} for variables of the agent,"
    " and --set or a second file for other values"
)


def suspects(tree: Tree, expanded: Callable[[str], Mapping[str, str | None]]) -> Iterator[tuple[Location, str]]:
    """Yield locations and messages; ``expanded`` returns ``AgentSpec.expanded`` of an agent by its name."""
    for location, text in texts(tree):
        part = location[2] if location[0] == "agents" and len(location) > 2 else ""
        others = expanded(location[1]) if part else {}
        remedy = others.get(part)
        # The model of sources has its own message for a secret written there.
        if part in {"secrets", "environment_files", "auth"} or (location[0] == "places" and "token" in location):
            continue
        if part == "environment":
            remedy = f"move it to secrets: {{{location[-1]}: {{env: {location[-1]}}}}}"
        if looks_like_a_secret(text):
            yield location, f"looks like a secret; {remedy or _OUTSIDE}"
        elif remedy and _KEY_NAME.search(location[-1]) and not _harmless(text):
            yield location, f"is named like a secret; {remedy}"
        elif part not in others and _REFERENCE.search(text):
            yield location, _NOT_REPLACED


def looks_like_a_secret(text: str) -> bool:
    """Whether a text contains something that looks like a key or token."""
    return bool(_KEY_VALUE.search(text))


def _harmless(text: str) -> bool:
    """Whether a text under the name of a secret is a switch, a number, or a reference (`Bearer ${NAME}`)."""
    if _OTHER_REFERENCE.fullmatch(text):
        return True
    if text.strip().lower() in {"", "true", "false", "none", "null"} or text.strip().isdecimal():
        return True
    return bool(_REFERENCE.search(text)) and len(_REFERENCE.sub("", text).split()) <= 1
