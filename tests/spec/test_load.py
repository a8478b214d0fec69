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
    """A case changes tests/data/good.yaml and has the ``message`` that the loader must print.

    ``file`` is loaded over the good file, from which the paths in ``without`` are removed; ``whole`` is loaded alone.
    ``files`` are other files in the folder, ``over`` are more files to load, and ``set`` are values of ``--set``.
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
