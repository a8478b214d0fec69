"""However much there is to choose, a person answers at most twelve questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paddock.setup.conduct import converse
from paddock.setup.files import write_result
from pvebox.cluster.fixture import default_fixture
from setup.conftest import pvebox
from setup.scripted import conversation

MOST = 12
ROOT = "root@pam!sandbox"


def test_a_cluster_with_two_of_everything_takes_twelve_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = default_fixture(("pve1", "pve2"))
    for node in fixture["nodes"].values():
        node["bridges"] = ["vmbr0", "vmbr1"]
    fixture["storages"]["tank"] = {"type": "dir", "content": ["rootdir", "images"]}
    fixture["templates"].append("local:vztmpl/debian-13-standard_13.1-2_amd64.tar.zst")
    (tmp_path / "fixture.json").write_text(json.dumps(fixture))
    state = ["--state", str(tmp_path / "box")]
    words = ["--runtime", "memory", "--port", "0", "--fixture", str(tmp_path / "fixture.json")]
    ready = json.loads(pvebox("up", *words, *state))
    try:
        monkeypatch.chdir(tmp_path)
        place = ["1", ready["url"], "yes", ready["tokens"][ROOT], "pve2", "tank", "vmbr1", "2", "new"]
        talk, script = conversation([*place, "anthropic", "sk-ant-0123456789", "some-model"], {"--token-id": ROOT})
        outcome = converse(talk, Path("farm"), None, sandbox=False)
        write_result(Path("farm"), outcome.answers, outcome.files)
    finally:
        pvebox("clean", *state)
    assert script.all_used, script.transcript
    assert talk.asked == MOST
    written = Path("farm/paddock.yaml").read_text()
    for words_of_the_file in ("node: pve2", "storage: tank", "bridge: vmbr1", "provider: anthropic"):
        assert words_of_the_file in written
