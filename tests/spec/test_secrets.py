from __future__ import annotations

from pathlib import Path

import pyrage
import pytest

from paddock.errors import BadInput
from paddock.spec.secrets import Source, resolve


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CANARY", "canary-value-1")
    assert Source(env="CANARY").read(tmp_path).reveal() == "canary-value-1"


def test_from_a_file_relative_to_the_one_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("canary-value-2\n")
    file.chmod(0o600)
    assert Source(file=Path("key")).read(tmp_path).reveal() == "canary-value-2"


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("canary-value-3")
    file.chmod(0o644)
    with pytest.raises(BadInput, match="can be read by others") as caught:
        Source(file=file).read(tmp_path)
    assert caught.value.hint == f"chmod 600 {file}"


def test_from_an_age_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = pyrage.x25519.Identity.generate()
    own = tmp_path / "identity"
    own.write_text(f"# created by a test\n{identity}\n")
    own.chmod(0o600)
    sealed = tmp_path / "secrets.age"
    sealed.write_bytes(pyrage.encrypt(b"other=1\ntelegram=canary-value-4\n", [identity.to_public()]))
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(own))
    assert Source(age=Path("secrets.age"), key="telegram").read(tmp_path).reveal() == "canary-value-4"
    with pytest.raises(BadInput, match="has no entry discord"):
        Source(age=Path("secrets.age"), key="discord").read(tmp_path)
    own.write_text(str(pyrage.x25519.Identity.generate()))
    with pytest.raises(BadInput, match="cannot be decrypted"):
        Source(age=Path("secrets.age"), key="telegram").read(tmp_path)
    monkeypatch.delenv("PADDOCK_AGE_KEY")
    with pytest.raises(BadInput, match="is encrypted"):
        Source(age=Path("secrets.age"), key="telegram").read(tmp_path)


def test_all_missing_ones_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        resolve({"A": Source(env="NO_SUCH_A"), "B": Source(file=tmp_path / "no-such")}, tmp_path)
    assert "A: environment variable NO_SUCH_A is not set" in caught.value.message
    assert "B: cannot read" in caught.value.message


def test_a_value_of_two_lines_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CANARY", "two\nlines")
    with pytest.raises(BadInput, match="line breaks"):
        Source(env="CANARY").read(tmp_path)
