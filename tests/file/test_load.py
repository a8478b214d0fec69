"""Golden cases of mistakes in a file, with the exact messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import DATA, agrees, golden, read_case
from file.mistakes import written
from paddock.base.errors import BadInput, Exit
from paddock.kinds import load, parse

GOOD = (DATA / "good.yaml").read_text()


@pytest.mark.parametrize("path", golden("spec"))
def test_a_mistake_in_a_file_gives_the_message_of_its_case(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_valid_file_is_read_into_models() -> None:
    spec = parse(GOOD, "paddock.yaml")
    agent = spec.agents["hermes"]
    assert str(agent.machine.memory) == "4G"
    assert agent.user.name == "hermes"
    assert agent.secrets["LITELLM_API_KEY"].env == "LITELLM_API_KEY"


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no .*paddock\.yaml"):
        load(tmp_path / "paddock.yaml")


def test_a_folder_instead_of_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read"):
        load(tmp_path)
