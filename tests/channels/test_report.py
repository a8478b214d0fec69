"""Parsing reports: values are returned unchanged, and an incomplete report is an error."""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.base.errors import PaddockError
from paddock.channels import records
from paddock.channels.sent import text


@given(
    st.lists(st.tuples(st.sampled_from(["note", "said", "holder"]), st.text().filter(lambda text: "\0" not in text)))
)
def test_any_value_is_parsed_unchanged(pairs: list[tuple[str, str]]) -> None:
    printed = "".join(f"{name}={value}\0" for name, value in [("report", "1"), *pairs, ("end", "ok")])
    assert records(f"a login shell's greeting\n\0{printed}") == pairs


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "bundle=g1\n",
        "\0report=1\0",
        "\0report=1\0bundle=g1\0",  # cut off
        "\0report=1\0bundle=g1\0end=ok",
        "\0report=1\0no value\0end=ok\0",
        "\0report=1\0end=ok\0and more",
    ],
)
def test_a_report_that_is_cut_off_or_malformed_is_an_error(printed: str) -> None:
    with pytest.raises(PaddockError):
        records(printed)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60), max_size=5))
def test_the_shell_function_reports_any_value_unchanged(values: list[str]) -> None:
    function = re.search(r"^report\(\) \{.*?^\}", text("packages.sh"), re.MULTILINE | re.DOTALL)
    assert function
    reports = 'for value; do report "note=$value"; done\nreport end=ok\n'
    program = f"exec 3>&1 1>&2\n{function[0]}\nprintf '\\0report=1\\0' >&3\necho noise\n{reports}"
    done = subprocess.run(["sh", "-c", program, "paddock", *values], capture_output=True, check=True)
    assert records(done.stdout.decode()) == [("note", value) for value in values]
