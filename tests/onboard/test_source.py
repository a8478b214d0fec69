"""What a person can write after `--from`."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.verbs.importing import Archive, Container, Folder, Remote, Source, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("118", Container(118)),
        ("118:/opt/hermes", Container(118, "/opt/hermes")),
        ("root@10.1.10.30", Remote("root", "10.1.10.30")),
        ("root@10.1.10.30:", Remote("root", "10.1.10.30")),
        ("me@box.example:/srv/old agent", Remote("me", "box.example", None, "/srv/old agent")),
        ("ssh://me@box:2222/srv/hermes", Remote("me", "box", 2222, "/srv/hermes")),
        ("ssh://me@[fd00::1]", Remote("me", "fd00::1")),
        ("ssh://box", None),  # an account has to be named
        ("box:/srv/hermes", None),
        ("-oProxyCommand=x@box", None),
        ("root@-oProxyCommand=x", None),
        ("me@box:relative", None),
        ("0", None),
        ("no-such-file.zip", None),
        ("./no-such-folder", None),
        ("/no/such/folder", None),
        ("", None),
        ("a\0b", None),
    ],
)
def test_a_text_names_a_source(text: str, expected: Source | None) -> None:
    assert parse(text) == expected


def test_what_is_on_this_machine_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "118").mkdir()
    (tmp_path / "a@b").touch()
    assert parse("118") == Folder(tmp_path / "118")
    assert parse("a@b") == Archive(tmp_path / "a@b")
    assert parse("./a@b") == Archive(tmp_path / "a@b")
