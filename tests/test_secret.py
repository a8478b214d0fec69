from __future__ import annotations

import pickle

import pytest

from paddock import process
from paddock.secret import MASK, Secret, mask


def test_a_secret_does_not_show_itself() -> None:
    secret = Secret("canary-value-5")
    assert [str(secret), repr(secret), f"{secret}", f"{secret:>20}", f"{[secret]}"] == [
        MASK,
        MASK,
        MASK,
        MASK,
        f"[{MASK}]",
    ]
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)


def test_known_values_are_masked_inside_longer_text() -> None:
    Secret("canary-value-6")
    assert mask("Bearer canary-value-6!") == f"Bearer {MASK}!"


def test_of_two_values_the_longer_is_masked_whole() -> None:
    Secret("canary-7")
    Secret("canary-7-and-more")
    assert mask("x canary-7-and-more y") == f"x {MASK} y"


def test_what_a_process_prints_is_masked() -> None:
    Secret("canary-value-8")
    result = process.run(["sh", "-c", "echo canary-value-8; echo canary-value-8 >&2"])
    assert (result.out, result.err) == (f"{MASK}\n", f"{MASK}\n")
