from __future__ import annotations

import base64
import copy
import io
import json
import pickle
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from paddock.base import process, secret
from paddock.base.errors import PaddockError
from paddock.base.secret import MASK, MaskedStream, Secret, mask, unfinished, unmasked


def test_a_secret_is_masked_when_it_is_formatted_or_serialised() -> None:
    value = Secret("canary-value-5")
    shown = [str(value), repr(value), f"{value}", f"{value:>20}", f"{value!r}", "%s" % value, "".join([str(value)])]  # noqa: UP031
    assert set(shown) == {MASK}
    assert f"{[value]} { ({'a': value}) }" == f"[{MASK}] {{'a': {MASK}}}"
    assert json.dumps({"a": value}, ensure_ascii=False) == f'{{"a": "{MASK}"}}'
    assert pickle.loads(pickle.dumps(value)) == MASK
    assert "canary" not in repr(pickle.dumps(value))


def test_a_secret_is_masked_in_a_pydantic_model() -> None:
    class Holder(BaseModel, arbitrary_types_allowed=True):
        value: Secret

    holder = Holder(value=Secret("canary-value-5"))
    assert "canary" not in f"{holder} {holder!r} {holder.model_dump_json()}"


def test_a_secret_keeps_its_value_when_copied_and_compared() -> None:
    value = Secret("canary-value-5")
    assert value.reveal() == "canary-value-5"
    assert copy.deepcopy(value).reveal() == copy.copy(value).reveal() == "canary-value-5"
    assert value == Secret("canary-value-5")
    assert value != Secret("canary-value-6")
    assert value != MASK
    assert len({value, Secret("canary-value-5")}) == 1


def test_known_values_are_masked_inside_longer_text() -> None:
    Secret("canary-value-6")
    assert mask("Bearer canary-value-6!") == f"Bearer {MASK}!"


def test_a_secret_that_contains_another_is_masked_whole() -> None:
    Secret("canary-7")
    Secret("canary-7-and-more")
    assert mask("x canary-7-and-more y") == f"x {MASK} y"


def test_each_line_of_a_secret_is_masked() -> None:
    Secret("-----BEGIN KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END KEY-----\n")
    assert mask("found b3BlbnNzaC1rZXktdjEA there") == f"found {MASK} there"


# Realistic secret values: printable, on one line, at least as long as the shortest masked value.
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=0x24F), min_size=6, max_size=60)


@given(VALUES, st.binary(max_size=5), st.binary(max_size=5))
def test_encoded_values_are_masked(value: str, before: bytes, after: bytes) -> None:
    secret._known.clear()
    Secret(value)
    whole = base64.b64encode(before + value.encode() + after).decode()
    inner = base64.b64encode(b"\0" * len(before) + value.encode()).decode()[-(-len(before) * 4 // 3) : -4]
    for text in (whole, whole.replace("+", "-").replace("/", "_")):
        assert MASK in mask(text)
        assert inner not in mask(text)
    small = re.sub("%..", lambda found: found[0].lower(), quote(value, safe=""))
    for encoded in (quote(value), quote(value, safe=""), quote_plus(value), small):
        assert mask(f"https://host/?q={encoded}&x") == f"https://host/?q={MASK}&x"
    for escaped in (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value)):
        assert mask(escaped)[1:-1] == MASK


def test_the_output_of_a_process_is_masked() -> None:
    Secret("canary-value-8")
    result = process.run(["sh", "-c", "echo canary-value-8; echo canary-value-8 >&2"])
    assert (result.out, result.err) == (f"{MASK}\n", f"{MASK}\n")


def test_a_secret_printed_by_a_process_is_masked_afterwards() -> None:
    value = process.run_for_secret(["printf", "canary-value-9"])
    assert value.reveal() == "canary-value-9"
    assert process.run_for_secret(["printf", "canary-value-9"]).reveal() == "canary-value-9"
    assert mask("canary-value-9") == MASK


def test_the_error_of_a_failed_secret_command_shows_only_its_stderr() -> None:
    with pytest.raises(PaddockError) as caught:
        process.run_for_secret(["sh", "-c", "echo canary-value-10; echo complaint about canary-value-10 >&2; exit 3"])
    assert caught.value.message == f"sh failed with code 3:\ncomplaint about {MASK}"


def test_the_error_says_why_a_secret_command_cannot_be_started() -> None:
    with pytest.raises(PaddockError, match="is not installed"):
        process.run_for_secret(["no-such-program-at-all"])
    with pytest.raises(PaddockError, match="cannot be started: Permission denied"):
        process.run_for_secret(["/etc/passwd"])


def test_a_masked_stream_masks_secrets_in_all_text() -> None:
    Secret("canary-value-11")
    bare = io.StringIO()
    stream = MaskedStream(bare)
    print("say canary-value-11", file=stream)
    stream.writelines(["canary-value-11\n"])
    assert bare.getvalue() == f"say {MASK}\n{MASK}\n"
    assert not stream.isatty()
    assert unmasked(stream) is bare  # type: ignore[arg-type]
    assert unmasked(bare) is bare


def test_the_end_of_a_text_that_may_become_a_secret_is_held_back() -> None:
    Secret("top-secret-value")
    text = "it is top-secret-value, or top-sec"
    for split in range(len(text)):
        shown, held = "", ""
        for piece in (text[:split], text[split:]):
            held += piece
            ready = len(held) - unfinished(held)
            shown, held = shown + mask(held[:ready]), held[ready:]
        assert (shown, held) == ("it is •••, or ", "top-sec")
