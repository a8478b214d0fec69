from __future__ import annotations

import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.base.secret import Secret
from paddock.runtimes import bundle

VALUES = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1)


@given(st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9_]{0,10}", fullmatch=True), VALUES, max_size=4))
def test_parse_returns_the_values_of_dump(values: dict[str, str]) -> None:
    secrets = {name: Secret(value) for name, value in values.items()}
    assert bundle.parse(bundle.dump(secrets)) == secrets


@settings(max_examples=25)
@given(VALUES)
def test_a_shell_reads_the_same_value(value: str) -> None:
    text = bundle.dump({"X": Secret(value)})
    done = subprocess.run(["sh", "-c", f'{text}printf %s "$X"'], capture_output=True, check=True)
    assert done.stdout.decode() == value


def test_parse_reads_lines_without_quotes() -> None:
    assert bundle.parse("A=1\nB=x=y\n") == {"A": Secret("1"), "B": Secret("x=y")}
