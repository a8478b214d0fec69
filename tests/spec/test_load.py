"""Mistakes in a file, as data: the file in, the exact message out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import DATA, agrees, golden, read_case
from paddock.errors import BadInput, Exit
from paddock.spec.load import load, parse

GOOD = (DATA / "good.yaml").read_text()


@pytest.mark.parametrize("path", golden("spec"))
def test_mistake(path: Path) -> None:
    case = read_case(path)
    with pytest.raises(BadInput) as caught:
        parse(case["file"], "paddock.yaml")
    assert caught.value.exit_code == Exit.BAD_INPUT
    found = caught.value.message.splitlines()
    assert agrees(path, case, "message", found), found


def test_a_good_file() -> None:
    spec = parse(GOOD, "paddock.yaml")
    agent = spec.agents["hermes"]
    assert str(agent.machine.memory) == "4G"
    assert agent.user.name == "hermes"
    assert agent.secrets["LITELLM_API_KEY"].env == "LITELLM_API_KEY"


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no .*paddock\.yaml"):
        load(tmp_path / "paddock.yaml")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read"):
        load(tmp_path)


@given(st.text())
def test_any_text_is_a_spec_or_a_clean_error(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text, "paddock.yaml")


@given(st.data())
def test_a_damaged_file_is_a_spec_or_a_clean_error(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(GOOD) - 1))
    until = data.draw(st.integers(at, min(len(GOOD), at + 30)))
    damaged = GOOD[:at] + data.draw(st.text(max_size=10)) + GOOD[until:]
    with suppress(BadInput):
        assert parse(damaged, "paddock.yaml").agents is not None
