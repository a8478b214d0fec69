"""Values that look like secrets, or like they should come from outside, where a file should have neither."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from paddock.spec.tree import Location, Tree, texts

# The last words of names whose values are keys. `key_env`, `max_tokens` and the like name no key.
_KEY_NAME: Final = re.compile(
    r"(^|[_.-])(api[_-]?key|apikey|secret([_-]?key)?|access[_-]?key|private[_-]?key|master[_-]?key|signing[_-]?key"
    r"|auth[_-]?key|token|passwd|password|passphrase|credentials?|authorization|cookie)$",
    re.IGNORECASE,
)
_KEY_VALUE: Final = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic, OpenRouter, LiteLLM
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

_LITELLM_REFERENCE: Final = re.compile(r"os\.environ/[A-Za-z_][A-Za-z0-9_]*")

_NOT_REPLACED: Final = (
    "${…} is not replaced in this file; variables of the agent come from secrets: {NAME: {env: NAME}},"
    " other values from --set or a second file"
)

# Parts of an agent that some program other than Paddock reads, and may expand ${NAME} in.
_EXPANDED_BY_OTHERS: Final = {"settings", "mcp_servers", "documents", "service", "command", "health", "verify"}
_NAMED: Final = {"environment", "settings", "mcp_servers"}


def suspects(tree: Tree) -> Iterator[tuple[Location, str]]:
    """Where in the file, and what."""
    for location, text in texts(tree):
        part = location[2] if location[0] == "agents" and len(location) > 2 else ""
        # A literal where a source belongs has its own sentence.
        if part in {"secrets", "environment_files", "auth"} or (location[0] == "places" and "token" in location):
            continue
        if looks_like_a_secret(text):
            yield location, _remedy("looks like a secret", location, part)
        elif part in _NAMED and _KEY_NAME.search(location[-1]) and not _harmless(text):
            yield location, _remedy("is named like a secret", location, part)
        elif part not in _EXPANDED_BY_OTHERS and _REFERENCE.search(text):
            yield location, _NOT_REPLACED


def looks_like_a_secret(text: str) -> bool:
    """Whether there is something in a text that looks like a key."""
    return bool(_KEY_VALUE.search(text))


def _harmless(text: str) -> bool:
    """Whether a text under a key-like name is a switch, a number, or a reference (`Bearer ${NAME}`) to the real one."""
    if _LITELLM_REFERENCE.fullmatch(text):
        return True
    if text.strip().lower() in {"", "true", "false", "none", "null"} or text.strip().isdecimal():
        return True
    return bool(_REFERENCE.search(text)) and len(_REFERENCE.sub("", text).split()) <= 1


def _remedy(what: str, location: Location, part: str) -> str:
    match part:
        case "environment":
            return f"{what}; move it to secrets: {{{location[-1]}: {{env: {location[-1]}}}}}"
        case "settings":
            return f"{what}; name it under secrets: and write ${{NAME}} (or key_env: NAME) here"
        case "mcp_servers":
            return f"{what}; name it under secrets: and write ${{NAME}} here"
        case _:
            return f"{what}; secrets are named under secrets: and come from outside the file"
