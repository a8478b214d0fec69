from __future__ import annotations

import json

import pytest

from paddock.file.rules.literals import suspects
from paddock.file.tree import read
from paddock.kinds.hermes.spec import HermesSpec


def found(part: str, name: str, value: object) -> list[str]:
    tree = read(json.dumps({"agents": {"a": {part: {name: value}}}}), "x")
    return [sentence for _, sentence in suspects(tree, lambda _: HermesSpec.expanded)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key_env", "LITELLM_API_KEY"),
        ("max_tokens", "many"),
        ("MAX_TOKEN", "4096"),
        ("USE_TOKEN", "true"),
        ("api_key", "${LITELLM_API_KEY}"),
        ("api_key", "os.environ/LITELLM_API_KEY"),
        ("Authorization", "Bearer ${TOKEN}"),
        ("api_key", ""),
        ("TOKEN_FILE", "/run/token"),
        ("keyboard", "qwertz"),
        ("monkey", "george"),
        ("base_url", "http://192.0.2.22:4000/v1"),
        ("token", 5),
    ],
)
def test_a_harmless_value_is_not_reported_as_a_secret(name: str, value: object) -> None:
    assert found("settings", name, value) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", "abc"),
        ("apikey", "abc"),
        ("db.password", "abc"),
        ("client-secret", "abc"),
        ("Authorization", "Bearer abc"),
        ("x", "sk-ant-" + "a1" * 10),
        ("x", "see ghp_abcdefghijklmnopqrstuvwxyz0123"),
        ("x", "xoxb-1234567890-abcdefghij"),
        ("x", "123456789:AAFabcdefghijklmnopqrstuvwxyz123456"),
        ("x", "AGE-SECRET-KEY-1ABCDEF"),
        ("x", "-----BEGIN OPENSSH PRIVATE KEY-----"),
        ("x", "root@pam!deploy=01234567-89ab-cdef-0123-456789abcdef"),
        ("x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln"),
    ],
)
@pytest.mark.parametrize("part", ["settings", "environment"])
def test_a_value_that_looks_like_a_secret_is_reported(part: str, name: str, value: str) -> None:
    (sentence,) = found(part, name, value)
    assert "secret" in sentence
    assert value not in sentence
