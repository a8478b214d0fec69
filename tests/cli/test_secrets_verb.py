"""``paddock secrets`` on an age file."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pyrage
import pytest

from paddock.file.secrets.files import own_identity_path
from paddock.file.secrets.sources import Source

VALUE = "canary-value-20"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("PADDOCK_AGE_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    return "secrets.age"


def test_secrets_can_be_set_listed_printed_and_removed(paddock: Any, store: str, tmp_path: Path) -> None:
    said = paddock("secrets", "set", "telegram", stdin=f"{VALUE}\n")
    assert said.code == 0
    assert said.out == ""
    assert "created your age identity" in said.err
    assert "{age: secrets.age, key: telegram}" in said.err
    assert stat.S_IMODE(own_identity_path().stat().st_mode) == 0o600
    assert VALUE.encode() not in (tmp_path / store).read_bytes()
    assert Source(age=Path(store), key="telegram").read(tmp_path).reveal() == VALUE
    assert paddock("secrets", "set", "discord", stdin="other-value").err.count("identity") == 0
    assert paddock("secrets", "list").out == "discord\ntelegram\n"
    assert json.loads(paddock("secrets", "list", "--json").out) == ["discord", "telegram"]
    assert paddock("secrets", "get", "telegram").out == f"{VALUE}\n"
    assert paddock("secrets", "rm", "telegram").code == 0
    assert paddock("secrets", "list").out == "discord\n"


def test_set_asks_for_the_value_on_a_terminal(paddock: Any, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    asked: list[str] = []

    def prompt(text: str, *, hide_input: bool, err: bool) -> str:
        asked.append(f"{text} {hide_input} {err}")
        return VALUE

    monkeypatch.setattr(typer, "prompt", prompt)
    assert paddock("secrets", "set", "telegram", terminal=True).code == 0
    assert asked == ["telegram True True"]
    assert paddock("secrets", "get", "telegram").out == f"{VALUE}\n"


def test_set_does_not_take_the_value_as_an_argument(paddock: Any, store: str) -> None:
    assert paddock("secrets", "set", "telegram", VALUE).code == 2


def test_get_prints_to_a_terminal_only_with_reveal(paddock: Any, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    paddock("secrets", "set", "telegram", stdin=VALUE)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    said = paddock("secrets", "get", "telegram")
    assert (said.code, said.out) == (2, "")
    assert "--reveal" in said.err
    assert paddock("secrets", "get", "telegram", "--reveal").out == f"{VALUE}\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        (("set", "two words"), "x", "is not a name"),
        (("set", "a"), "", "is empty"),
        (("set", "a"), "two\nlines", "line breaks"),
        (("set", "a", "--recipient", "age1x"), "x", "not an age public key"),
        (("get", "none"), "", "has no entry none"),
        (("rm", "none"), "", "has no entry none"),
    ],
)
def test_invalid_names_values_and_recipients_are_refused(
    paddock: Any, store: str, arguments: tuple[str, ...], stdin: str, sentence: str
) -> None:
    said = paddock("secrets", *arguments, stdin=stdin)
    assert said.code == 2
    assert sentence in said.err


def test_recipients_are_kept_when_another_entry_is_set(
    paddock: Any, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    friend = pyrage.x25519.Identity.generate()
    paddock("secrets", "set", "a", "--recipient", str(friend.to_public()), stdin="first-value")
    paddock("secrets", "set", "b", stdin="second-value")
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(friend))
    assert paddock("secrets", "list").out == "a\nb\n"


def test_values_with_quotes_and_spaces_are_kept_exactly(paddock: Any, store: str) -> None:
    for value in ('"quoted"', "'x'", " spaces ", "a=b#c", '"', "é✓"):
        paddock("secrets", "set", "a", stdin=value)
        assert paddock("secrets", "get", "a").out == f"{value}\n"


def test_get_fails_for_a_file_encrypted_to_another_identity(paddock: Any, store: str, tmp_path: Path) -> None:
    paddock("secrets", "set", "a", stdin="first-value")
    own_identity_path().write_text(str(pyrage.x25519.Identity.generate()))
    said = paddock("secrets", "get", "a")
    assert said.code == 2
    assert "cannot be decrypted with" in said.err
