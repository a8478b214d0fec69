"""Mistakes in a file, as data: the file in, the exact message out."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import DATA, agrees, golden, read_case
from paddock.errors import BadInput, Exit
from paddock.recipes import load, parse
from spec.mistakes import written

GOOD = (DATA / "good.yaml").read_text()


@pytest.mark.parametrize("path", golden("spec"))
def test_mistake(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case is a good file, changed.

    It has a ``file`` that is loaded over the good one, and paths that the good one is ``without``; or the ``whole`` file.
    It may have ``files`` beside it, files ``over`` it, and values ``set``.
    """
    case = read_case(path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as caught:
        load(*written(case), sets=case.get("set", ()))
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
