"""Values that must appear nowhere, and a search for them in plain and encoded form."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus


def canary(kind: str) -> str:
    """Return a new secret value with characters that encodings change."""
    return f"canary+{kind}/{secrets.token_hex(8)}=~"


@dataclass
class Canaries:
    """Secret values by their kind: what the secret is for, or where it comes from."""

    values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, kinds: Iterable[str]) -> Canaries:
        return cls({kind: canary(kind) for kind in kinds})

    def __getitem__(self, kind: str) -> str:
        return self.values[kind]

    def found(self, data: bytes) -> set[str]:
        """Return the kinds of the values in the data."""
        return {kind for kind, value in self.values.items() if any(form in data for form in forms(value))}

    def patterns(self) -> Mapping[str, list[bytes]]:
        """Return what to search for, by kind, for programs such as grep."""
        return {kind: sorted(forms(value)) for kind, value in self.values.items()}


def forms(value: str) -> set[bytes]:
    """Return the value as it is, and as it is inside URLs, JSON, hexadecimal digits and base64."""
    texts = {value, json.dumps(value)[1:-1], value.encode().hex(), *_in_urls(value), *_in_base64(value.encode())}
    return {text.encode() for text in texts}


def _in_urls(value: str) -> Iterator[str]:
    for encoded in (quote(value), quote(value, safe=""), quote_plus(value)):
        yield encoded
        yield re.sub("%..", lambda found: found[0].lower(), encoded)


def _in_base64(value: bytes) -> Iterator[str]:
    """Yield the characters that do not depend on what is before and after the value."""
    for before, skipped in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(b"\0" * before + value).decode()[skipped:-4]
        yield text
        yield text.replace("+", "-").replace("/", "_")
