"""Whole conversations: the answers of a person, what the terminal shows, and the file in the end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cases import agrees, golden, read_case
from paddock.base.errors import PaddockError
from paddock.file.secrets.files import Store
from paddock.places.proxmox.api.tls import presented
from paddock.setup.conduct import converse
from paddock.setup.files import write_result
from setup.conftest import Offers
from setup.scripted import conversation

LINES = re.compile(r"^(pveum [^\n]*\n)+", re.MULTILINE)


def filled(value: Any, offers: Offers, folder: Path) -> str:
    """Return an answer of a case with the values of this run."""
    names = {"address": offers.address, "token": offers.token, "models": offers.models, "key": offers.key}
    names |= {"folder": str(folder), "fingerprint": presented(offers.ready["url"]).fingerprint}
    return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], str(value))


def masked(text: str, offers: Offers, folder: Path) -> list[str]:
    """Return the lines of a text without the values of this run, and without root's lines, which have their tests."""
    for value, name in (
        *((offers.address, "NODE:8006"), (offers.models, "http://MODELS/v1")),
        *((str(folder), "FOLDER"), (offers.models.partition("//")[2].partition(":")[0], "MODELS")),
    ):
        text = text.replace(value, name)
    text = re.sub(r"(?:[0-9A-F]{2}:){31}[0-9A-F]{2}", "FINGERPRINT", text)
    text = re.sub(r"(?:[0-9A-F]{2}:){16}\n  (?:[0-9A-F]{2}:){15}[0-9A-F]{2}", "FINGERPRINT", text)
    return LINES.sub("pveum …\n", text).splitlines()


def secrets_of(folder: Path) -> list[str]:
    return sorted(Store.open(folder / "secrets.age").entries) if (folder / "secrets.age").exists() else []


@pytest.mark.parametrize("path", golden("init"))
def test_a_conversation(
    path: Path, offers: Offers, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = read_case(path)
    monkeypatch.setenv("PVE_TOKEN", f"{offers.token_id}={offers.token}")
    monkeypatch.setenv("MODEL_KEY", offers.key)
    monkeypatch.setenv("WRONG_KEY", "sk-of-somebody-else")
    monkeypatch.chdir(tmp_path)
    folder = Path("farm")  # relative, because lines are wrapped
    for name, content in case.get("files", {}).items():
        file = tmp_path / name
        file.write_text(filled(content, offers, tmp_path) + "\n")
        file.chmod(0o600)
    given = {flag: filled(value, offers, tmp_path) for flag, value in case.get("given", {}).items()}
    typed = [filled(each, offers, tmp_path) for each in case["answers"]] if "answers" in case else None
    talk, script = conversation(typed, given)
    ended = "written"
    for words in case.get("faults", ()):
        offers.fault(*words.split())
    try:
        outcome = converse(talk, folder, None, sandbox=False)
        write_result(folder, outcome.answers, outcome.files)
    except KeyboardInterrupt:
        ended = "Ctrl-C"
    except PaddockError as error:
        ended = " | ".join([f"code {int(error.exit_code)}: {error.message}", *filter(None, [error.hint])])
    finally:
        for words in case.get("faults", ()):
            offers.fault(*words.replace("fill", "empty").split())
    assert script.all_used, script.transcript
    for secret in (offers.token, offers.key):
        assert secret not in script.transcript + ended
    assert agrees(path, case, "shown", masked(script.transcript, offers, tmp_path))
    assert agrees(path, case, "asked", talk.asked)
    assert agrees(path, case, "ended", "\n".join(masked(ended, offers, tmp_path)))
    assert agrees(path, case, "secrets", secrets_of(folder))
    written = folder / "paddock.yaml"
    if written.exists():
        for secret in (offers.token, offers.key):
            assert secret not in written.read_text()
        assert agrees(path, case, "file", masked(written.read_text(), offers, tmp_path))
    else:
        assert not folder.exists(), "nothing is left of it"
        assert not list(own_home.rglob("*key*")), "nor of keys"
