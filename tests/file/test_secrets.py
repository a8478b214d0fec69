"""Secret values are read from their sources, or reported as missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyrage
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.base.errors import BadInput, NeedsPerson
from paddock.base.secret import MASK, mask
from paddock.file.secrets import files as dotenv
from paddock.file.secrets.allowed import allow
from paddock.file.secrets.files import own_identity_path
from paddock.file.secrets.sources import Source, resolve

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a file which only its owner may read."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write


@pytest.fixture
def sops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a fake sops, which prints the file beside the encrypted one instead of decrypting."""
    program = tmp_path / "bin" / "sops"
    program.parent.mkdir()
    program.write_text("""#!/bin/sh
[ "$1" = --decrypt ] || exit 64
shift
if [ "$1" = --extract ]; then
    grep -F "$2=" "$3.plain" | cut -d= -f2- | grep . && exit 0
    echo "component $2 not found" >&2; exit 1
fi
cat "$1.plain"
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program


def test_a_secret_comes_from_an_environment_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CANARY", "canary-value-1")
    assert Source(env="CANARY").read(tmp_path).reveal() == "canary-value-1"
    assert mask("canary-value-1") == MASK


def test_the_path_of_a_secret_file_is_relative_to_the_folder_of_the_file(write: Write, tmp_path: Path) -> None:
    write("key", "canary-value-2\n")
    assert Source(file=Path("key")).read(tmp_path).reveal() == "canary-value-2"


def test_a_secret_is_an_entry_of_a_dotenv_file(write: Write, tmp_path: Path) -> None:
    write("hermes.env", "# keys\nexport A=one-value\nB = 'two value'\nC=\"three=value\"\n\n")
    for key, value in {"A": "one-value", "B": "two value", "C": "three=value"}.items():
        assert Source(dotenv=Path("hermes.env"), key=key).read(tmp_path).reveal() == value
    with pytest.raises(BadInput, match=r"hermes\.env has no entry D"):
        Source(dotenv=Path("hermes.env"), key="D").read(tmp_path)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A='b' # note", "b"),
        ('A="b # c" # note', "b # c"),
        ("A=b#c", "b#c"),
        ("A=#b", "#b"),
        ("A='b' # it's", "b"),
        ("A='it's'", "it's"),
        ("A=", ""),
    ],
)
def test_a_comment_after_quotes_is_no_part_of_the_value(line: str, value: str) -> None:
    assert dotenv.entries(line, "hermes.env") == {"A": value}


@pytest.mark.parametrize("line", ["A=b # note", "A= # note", "A=b\t#note", "A='b # note"])
def test_a_comment_after_a_value_without_quotes_is_refused(line: str) -> None:
    with pytest.raises(BadInput, match=r"line 2 of hermes\.env has a # after white space") as caught:
        dotenv.entries(f"B=c\n{line}\n", "hermes.env")
    assert "note" not in str(caught.value)  # it may be a part of the secret
    assert caught.value.hint == "put the value in quotes, or the comment on a line of its own"


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"])) | st.text("ab \"'#"))
def test_a_written_entry_is_read_back(value: str) -> None:
    try:
        line = dotenv.written("A", value)
    except BadInput:
        assert {'"', "'", "#"} <= set(value)
    else:
        assert dotenv.entries(f"{line}\n", "hermes.env") == {"A": value}


@pytest.mark.parametrize("kind", ["file", "dotenv"])
def test_a_secret_file_that_other_accounts_can_read_is_refused(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "key"
    file.write_text("A=canary-value-3")
    for mode in (0o644, 0o640, 0o602):
        file.chmod(mode)
        with pytest.raises(BadInput, match="can be read by other accounts") as caught:
            Source.model_validate({kind: file} | ({"key": "A"} if kind == "dotenv" else {})).read(tmp_path)
        assert caught.value.hint == f"chmod 600 {file}"


def test_a_secret_is_an_entry_of_an_age_file(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = pyrage.x25519.Identity.generate()
    own = write("identity", f"# created by a test\n{identity}\n")
    sealed = tmp_path / "secrets.age"
    sealed.write_bytes(pyrage.encrypt(b"other=1\ntelegram=canary-value-4\n", [identity.to_public()]))
    source = Source(age=Path("secrets.age"), key="telegram")
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(own))
    assert source.read(tmp_path).reveal() == "canary-value-4"
    with pytest.raises(BadInput, match="has no entry discord"):
        Source(age=Path("secrets.age"), key="discord").read(tmp_path)

    monkeypatch.setenv("PADDOCK_AGE_KEY", str(identity))
    assert source.read(tmp_path).reveal() == "canary-value-4"
    assert mask(str(identity)) == MASK

    monkeypatch.setenv("PADDOCK_AGE_KEY", str(write("other", str(pyrage.x25519.Identity.generate()))))
    with pytest.raises(BadInput, match="cannot be decrypted"):
        source.read(tmp_path)
    named = Source(age=Path("secrets.age"), key="telegram", identity=Path("identity"))
    assert named.read(tmp_path).reveal() == "canary-value-4"

    monkeypatch.delenv("PADDOCK_AGE_KEY")
    with pytest.raises(BadInput, match="is encrypted") as caught:
        source.read(tmp_path)
    assert str(own_identity_path()) in (caught.value.hint or "")
    own_identity_path().parent.mkdir(parents=True)
    own.rename(own_identity_path())
    assert source.read(tmp_path).reveal() == "canary-value-4"
    own_identity_path().chmod(0o640)
    with pytest.raises(BadInput, match="can be read by other accounts"):
        source.read(tmp_path)


def test_broken_age_files_and_identities_are_errors(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("identity", str(pyrage.x25519.Identity.generate()))
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(tmp_path / "identity"))
    write("broken.age", "not encrypted at all")
    with pytest.raises(BadInput, match="cannot be decrypted"):
        Source(age=Path("broken.age")).read(tmp_path)
    with pytest.raises(BadInput, match="cannot read"):
        Source(age=Path("none.age")).read(tmp_path)
    for text in ("no key at all", "AGE-SECRET-KEY-1BROKEN", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n"):
        write("identity", text)
        with pytest.raises(BadInput, match="holds no age identity"):
            Source(age=Path("broken.age")).read(tmp_path)


def test_a_whole_age_file_can_be_one_value(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = pyrage.x25519.Identity.generate()
    monkeypatch.setenv("PADDOCK_AGE_KEY", str(identity))
    (tmp_path / "auth.age").write_bytes(pyrage.encrypt(b'{"a":\n "canary-12"}\n', [identity.to_public()]))
    assert Source(age=Path("auth.age")).content(tmp_path).reveal() == '{"a":\n "canary-12"}\n'
    with pytest.raises(BadInput, match="line breaks"):
        Source(age=Path("auth.age")).read(tmp_path)


def test_each_text_in_a_secret_json_document_is_masked(write: Write, tmp_path: Path) -> None:
    write("auth.json", '{"providers": [{"tokens": {"refresh": "canary-value-19", "expires": 12345678}}]}')
    Source(file=Path("auth.json")).content(tmp_path)
    assert mask("got canary-value-19 until 12345678") == f"got {MASK} until 12345678"
    write("deep.json", "[" * 100_000)
    assert Source(file=Path("deep.json")).content(tmp_path).reveal().startswith("[[")


def test_a_secret_comes_from_sops(write: Write, sops: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("s.yaml.plain", '["hermes"]["key"]=canary-value-13')
    assert Source(sops=Path("s.yaml"), key="hermes.key").read(tmp_path).reveal() == "canary-value-13"
    with pytest.raises(Exception, match=r'component \["none"\] not found'):
        Source(sops=Path("s.yaml"), key="none").read(tmp_path)
    write("env.yaml.plain", "A=canary-value-14\nB=canary-value-15\n")
    found = resolve({}, tmp_path, [Source(sops=Path("env.yaml"))])
    assert {name: value.reveal() for name, value in found.items()} == {"A": "canary-value-14", "B": "canary-value-15"}
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BadInput, match="needs the program sops"):
        Source(sops=Path("s.yaml")).read(tmp_path)


def test_sops_is_called_with_the_identity_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/sops"
    program.parent.mkdir()
    program.write_text("""#!/bin/sh
{ printf '%s\\n' "$@"; printf '%s\\n' "SOPS_AGE_KEY_FILE=${SOPS_AGE_KEY_FILE-}"; } > "${0%/*}/called"
echo canary-value-20
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.delenv("SOPS_AGE_KEY_FILE", raising=False)
    for source, arguments, identity in [
        (Source(sops=Path("s.yaml")), ["--decrypt", f"{tmp_path}/s.yaml"], ""),
        (Source(sops=Path("s.yaml"), key="a.b"), ["--decrypt", "--extract", '["a"]["b"]', f"{tmp_path}/s.yaml"], ""),
        (
            Source(sops=Path("s.yaml"), identity=Path("keys.txt")),
            ["--decrypt", f"{tmp_path}/s.yaml"],
            f"{tmp_path}/keys.txt",
        ),
    ]:
        assert source.read(tmp_path).reveal() == "canary-value-20"
        called = (tmp_path / "bin/called").read_text().splitlines()
        assert called == [*arguments, f"SOPS_AGE_KEY_FILE={identity}"]


def test_a_secret_comes_from_a_command_without_a_shell(tmp_path: Path) -> None:
    allow([["printf", "%s\n", "$HOME;x"]])
    assert Source(command=["printf", "%s\n", "$HOME;x"]).read(tmp_path).reveal() == "$HOME;x"


def test_a_command_that_was_not_approved_is_not_run(tmp_path: Path) -> None:
    allow([["touch", str(tmp_path / "other")]])
    with pytest.raises(NeedsPerson, match="has not approved the command: touch"):
        Source(command=["touch", str(tmp_path / "made")]).read(tmp_path)
    assert not list(tmp_path.iterdir())


def test_all_missing_secrets_are_reported_in_one_error(tmp_path: Path) -> None:
    (tmp_path / "open").write_text("canary-value-16")
    (tmp_path / "lines").write_text("canary-value-17")
    (tmp_path / "lines").chmod(0o600)
    sources = {
        "A": Source(env="NO_SUCH_A"),
        "B": Source(file=tmp_path / "no-such"),
        "C": Source(file=tmp_path / "open"),
        "D": Source(command=["no-such-program-at-all"]),
        "E": Source(command=["false"]),
        "F": Source(dotenv=tmp_path / "lines", key="F"),
    }
    allow([["no-such-program-at-all"], ["false"]])
    with pytest.raises(BadInput) as caught:
        resolve(sources, tmp_path, [Source(file=tmp_path / "lines")])
    assert caught.value.message.splitlines() == [
        "secrets are missing:",
        f"  environment_files {tmp_path}/lines: line 1 of {tmp_path}/lines is not NAME=value",
        "  A: environment variable NO_SUCH_A is not set",
        f"  B: cannot read {tmp_path}/no-such: No such file or directory",
        f"  C: {tmp_path}/open can be read by other accounts (chmod 600 {tmp_path}/open)",
        "  D: the program no-such-program-at-all is not installed",
        "  E: false failed with code 1",
        f"  F: line 1 of {tmp_path}/lines is not NAME=value",
    ]


def test_named_secrets_override_environment_files(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.env", "A=first\nB=first\nC=\n")
    write("b.env", "B=second")
    monkeypatch.setenv("A", "named")
    found = resolve({"A": Source(env="A")}, tmp_path, [Source(file=Path("a.env")), Source(file=Path("b.env"))])
    assert {name: value.reveal() for name, value in found.items()} == {"A": "named", "B": "second"}


def test_an_entry_with_an_invalid_variable_name_is_an_error(write: Write, tmp_path: Path) -> None:
    write("a.env", "A-B=first\n")
    with pytest.raises(BadInput, match=r"environment_files a\.env: A-B cannot be a variable"):
        resolve({}, tmp_path, [Source(file=Path("a.env"))])


def test_common_words_and_numbers_are_not_masked(write: Write, tmp_path: Path) -> None:
    write("a.env", "DEBUG=true\nPORT=8642\nMODE=null\n")
    resolve({}, tmp_path, [Source(file=Path("a.env"))])
    assert mask('{"ok": true, "port": 8642, "x": null}') == '{"ok": true, "port": 8642, "x": null}'


def test_a_secret_value_with_a_line_break_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CANARY", "two\nlines")
    with pytest.raises(BadInput, match="line breaks"):
        Source(env="CANARY").read(tmp_path)


def test_a_secret_file_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(BadInput, match="not a text in UTF-8"):
        Source(file=Path("key")).read(tmp_path)
