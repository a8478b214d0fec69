"""How the program on a machine is asked, and what is taken for its answer."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
from paddock.base.errors import PaddockError
from paddock.base.process import CommandFailed, Pipes, ProgramMissing, Result
from paddock.channels import Guest, MachineDiskFull, OutputCut
from paddock.channels import onboard as client
from paddock.channels.local import LocalGuest
from paddock.channels.onboard import Answer, NoPython, answer_of, ask, begun, framed_payload, needed, sent, started
from paddock.onboard.code.packages import InventorySeen, ReportInventory
from paddock.onboard.program.refusal import BUSY, WRONG, Refusal
from paddock.onboard.program.serve import UNEXPECTED, Payload
from paddock.onboard.state.claim import HoldLease
from paddock.onboard.state.version import RecordUpgrade

GUEST = LocalGuest()
GREETING = "Welcome to hive!\nYou have new mail.\n"
SOURCES = Path(paddock.__file__).parent.parent


@dataclass(frozen=True)
class Shell:
    """This machine, whose login shell runs something before each program."""

    first: str
    name: str = "hive"

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        return GUEST.run(["sh", "-c", f'{self.first}\nexec "$@"', "sh", *argv], stdin=stdin, deadline=deadline)


@dataclass(frozen=True)
class Printed:
    """A machine on which every program ends in this way."""

    out: str = ""
    code: int = 0
    err: str = ""
    cut: bool = False
    name: str = "hive"
    asked: list[Sequence[str]] = field(default_factory=list)

    def run(self, argv: Sequence[str], *, stdin: bytes | Path = b"", deadline: float = 60.0) -> Result:
        self.asked.append(argv)
        return Result(tuple(argv), self.code, self.out, self.err, 0.0, self.cut)


def line(**told: Any) -> str:
    return f"\0{json.dumps(told)}\n"


def manifest(folder: Path) -> ReportInventory:
    """Return a request that reports one package."""
    (folder / "manifest").write_text("dpkg bash 5.2\n")
    return ReportInventory(str(folder / "manifest"))


def asked(guest: object, request: client.Request, payload: bytes = b"", **more: Any) -> Any:
    return ask(cast(Guest, guest), "looking", request, payload, **more)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state/.paddock").mkdir(parents=True, mode=0o700)
    return tmp_path / "state"


# What a person's login shell and other programs print


@pytest.mark.parametrize(
    "first",
    [
        ":",
        f"printf '%s' '{GREETING}'",
        f"printf '%s' '{GREETING}' >&2",
        "printf 'no line break'",
        "echo '{\"code\": 0}'",
    ],
)
def test_what_a_login_shell_prints_before_the_answer_is_ignored(tmp_path: Path, first: str) -> None:
    found = asked(Shell(first), manifest(tmp_path), into=InventorySeen)
    assert (found.of_template, found.packages) == (True, ["dpkg bash 5.2"])


@pytest.mark.parametrize(
    "printed",
    [
        "",
        GREETING,
        '{"code": 0, "value": null}\n',  # without its mark
        "\0",
        '\0{"code": 0, "value": ',
        '\0{"code": "0x"}\n',
        "\0[]\n",
        "\0null\n",
        f"\0{'[' * 100_000}\n",
        line(say="only this"),
    ],
)
def test_output_without_an_answer_is_an_error_that_names_the_machine(tmp_path: Path, printed: str) -> None:
    with pytest.raises(PaddockError, match="the answer of hive is incomplete") as caught:
        asked(Printed(printed), manifest(tmp_path))
    assert "what root's login shell prints there" in str(caught.value.hint)


@given(st.text(), st.text())
def test_any_output_is_an_answer_or_an_error(before: str, after: str) -> None:
    for code in (0, 1):
        try:
            answer = answer_of(Result((), code, f"{before}\0{after}", "", 0.0), "hive")
        except PaddockError:
            continue
        assert isinstance(answer, Answer)


def test_a_program_that_was_killed_has_failed(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="looking on hive failed with code 137:\nKilled") as caught:
        asked(Printed(line(say="begun"), 137, "Killed"), manifest(tmp_path))
    assert caught.value.result.code == 137


@pytest.mark.parametrize("printed", [f"{GREETING}\0", '\0{"code": 0, "value": ["x'])
def test_output_that_was_cut_is_named(tmp_path: Path, printed: str) -> None:
    with pytest.raises(OutputCut):
        asked(Printed(printed, cut=True), manifest(tmp_path))


def test_an_answer_of_another_form_is_an_error(tmp_path: Path) -> None:
    values: list[Any] = [None, [], "text", {}, {"of_template": True}, {"of_template": 1, "system": "", "packages": []}]
    for value in values:
        with pytest.raises(PaddockError, match="looking on hive: the answer cannot be used"):
            asked(Printed(line(code=0, value=value)), manifest(tmp_path), into=InventorySeen)


# Requests


def test_a_request_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "VERSION", 2)
    with pytest.raises(CommandFailed, match="this program knows version 1 of requests, not 2") as caught:
        asked(GUEST, manifest(tmp_path))
    assert caught.value.result.code == UNEXPECTED


def test_a_refusal_has_its_code_and_its_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as caught:
        asked(GUEST, RecordUpgrade(str(tmp_path), "on"))
    result = caught.value.result
    assert (result.code, result.err) == (WRONG, f"{tmp_path}/.paddock is not a directory that only root can enter")
    assert caught.value.message == f"looking on this machine failed with code {WRONG}:\n{result.err}"


def test_an_error_of_the_system_names_its_file(state: Path) -> None:
    (state / ".paddock/upgrade.new").mkdir()
    with pytest.raises(CommandFailed) as caught:
        asked(GUEST, RecordUpgrade(str(state), "saved", {"from": "1"}))
    assert (caught.value.result.code, caught.value.result.err) == (1, f"{state}/.paddock/upgrade.new: Is a directory")


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    said = "/etc/paddock/home_bee/incoming/secrets.env: No space left on device"
    with pytest.raises(MachineDiskFull):
        asked(Printed(line(code=1, said=said), 1), manifest(tmp_path))


def test_an_unexpected_error_is_told_with_its_place(state: Path) -> None:
    request = RecordUpgrade(str(state), "saved", cast(Any, {"from": {}}))
    answer = client.tried(GUEST, request)
    assert answer.result.code == UNEXPECTED
    assert answer.result.err.startswith("Malformed: ")


def test_lines_for_a_person_come_before_the_answer(state: Path) -> None:
    answer = client.tried(GUEST, HoldLease(str(state)), b"")
    assert (answer.result.ok, answer.said) == (True, ["held"])


# Payloads


def frames(*parts: bytes) -> bytes:
    return b"".join(b"P %d\n%s" % (len(part), part) for part in parts)


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=5), st.lists(st.integers(1, 12), max_size=12))
def test_a_payload_is_read_in_parts_of_any_size(parts: list[bytes], sizes: list[int]) -> None:
    stream = io.BytesIO(frames(*parts, b"") + b"R 2\n{}")
    payload, whole = Payload(stream), b"".join(parts)
    read = [payload.read(size) for size in sizes]
    assert read == [whole[sum(sizes[:at]) :][:size] for at, size in enumerate(sizes)]
    assert payload.read() == whole[sum(sizes) :]
    assert (payload.read(), payload.read(4)) == (b"", b"")
    assert stream.read() == b"R 2\n{}", "the next request was read too"


def test_a_payload_is_framed() -> None:
    assert (framed_payload(b""), framed_payload(b"ab\n")) == (b"P 0\n", b"P 3\nab\nP 0\n")


@pytest.mark.parametrize("size", [-1, 3, 100])
@pytest.mark.parametrize("sent_", [b"", frames(b"ab"), b"P 5\nab", b"P 5\n", frames(b"ab") + b"P 5"])
def test_a_payload_that_ends_early_is_refused(sent_: bytes, size: int) -> None:
    payload = Payload(io.BytesIO(sent_))
    with pytest.raises(Refusal, match="the connection ended within the data"):
        list(iter(partial(payload.read, size), b""))


def test_a_connection_that_ends_within_a_payload_ends_the_program(state: Path) -> None:
    argv, given_ = sent(HoldLease(str(state)), b"x" * 1000)
    done = subprocess.run(argv, input=given_[:-500], capture_output=True, timeout=20, check=False)
    assert b'"say": "held"' in done.stdout


def test_a_connection_that_ends_within_a_request_ends_the_program(tmp_path: Path) -> None:
    argv, given_ = sent(manifest(tmp_path))
    done = subprocess.run(argv, input=given_[:-20], capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"the connection ended within a message\n"


def test_a_payload_that_was_not_read_is_not_the_next_request(tmp_path: Path) -> None:
    argv, first = sent(manifest(tmp_path), b"R 2\n{}\n" * 100_000)
    _, second = sent(RecordUpgrade(str(tmp_path), "on"))
    done = subprocess.run(argv, input=first + second, capture_output=True, timeout=20, check=False)
    codes = [json.loads(each)["code"] for each in done.stdout.decode().split("\0")[1:]]
    assert (codes, done.returncode) == ([0, WRONG], WRONG)


# Connections that stay open


@contextmanager
def opened(first: str = ":") -> Iterator[Pipes]:
    with GUEST.piped(["sh", "-c", f'{first}\nexec "$@"', "sh", *started()]) as pipes:
        yield pipes


def test_a_request_that_lasts_tells_that_it_has_begun(state: Path) -> None:
    with opened(f"printf '%s' '{GREETING}no line break'") as pipes:
        assert begun(pipes, HoldLease(str(state))).said == ["held"]
        with opened() as others:
            refused = begun(others, HoldLease(str(state)))
        assert (list(refused.said), refused.result.code) == ([], BUSY)
        assert refused.result.err.startswith("the state is in use")
        assert pipes.end().ok
    with opened() as pipes:
        assert begun(pipes, HoldLease(str(state))).said == ["held"], "the lease was not released"


def test_a_connection_that_ends_before_the_request_has_begun_is_no_beginning(state: Path) -> None:
    with opened("exec <&-; echo no; exit 3") as pipes:
        assert pipes.source.read() == b"no\n"
        answer = begun(pipes, HoldLease(str(state)))
    assert (answer.said, answer.result.code) == ((), 3)


def test_a_line_that_is_no_answer_is_no_beginning(state: Path) -> None:
    with opened("printf '\\0[]\\n'") as pipes, pytest.raises(PaddockError):
        begun(pipes, HoldLease(str(state)))


# The program itself


def test_the_loader_is_short_enough_for_the_command_line_of_any_machine() -> None:
    assert len(started()[-1].encode()) <= 4096


def requests() -> Iterator[type]:
    """Every class of the package that a machine can be asked with."""
    for path in sorted((SOURCES / "paddock/onboard").rglob("*.py")):
        if "def perform(self, " in path.read_text():
            module = import_module(".".join(path.relative_to(SOURCES).with_suffix("").parts))
            yield from (each for each in vars(module).values() if _is_request(each, module.__name__))


def _is_request(each: object, module: str) -> bool:
    return isinstance(each, type) and each.__module__ == module and hasattr(each, "perform")


def imports(module: str) -> Iterator[str]:
    """The modules that a module imports, also within its functions and for its types."""
    path = SOURCES.joinpath(*module.split(".")).with_suffix(".py")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports by a relative name"
            yield str(node.module)


@pytest.mark.parametrize("module", sorted({each.__module__ for each in requests()}))
def test_a_request_brings_all_modules_that_it_needs_and_only_those_of_the_program(module: str) -> None:
    closure = needed(module)
    assert {each.partition(".onboard.")[0] for each in closure} == {"paddock"}
    assert {module, "paddock.onboard.program.serve"} <= closure
    for each in closure:
        for imported in imports(each):
            assert imported in closure or imported.partition(".")[0] in sys.stdlib_module_names, f"{each}: {imported}"


def test_the_requests_of_all_rooms_are_known() -> None:
    names = {each.__name__ for each in requests()}
    assert {"Apply", "Create", "DeleteState", "InstallTree", "Look", "Observe", "Rename", "ReportMounts"} <= names


@pytest.mark.parametrize("request_", list(requests()), ids=lambda each: each.__name__)
def test_a_machine_without_paddock_can_load_each_request(request_: Any) -> None:
    """The fields are wrong, so that nothing is done."""
    wrong = request_.__new__(request_)
    vars(wrong)["no such field"] = 1
    argv, given_ = sent(wrong)
    done = subprocess.run(argv, input=given_, capture_output=True, timeout=20, check=False, cwd="/")
    if hasattr(request_, "streams"):  # its output is a stream, and its reason is on stderr
        assert (done.stdout, done.returncode) == (b"", UNEXPECTED)
        said = done.stderr.decode().splitlines()[-1]
    else:
        answer = json.loads(done.stdout.rpartition(b"\0")[2])
        assert answer == {"code": UNEXPECTED, "said": answer["said"]}
        said = answer["said"]
    assert said.startswith(f"Malformed: {request_.__name__} is not {request_.__name__}")


# Python


@pytest.mark.parametrize("printed", ["", GREETING])
def test_a_machine_without_python_is_named(tmp_path: Path, printed: str) -> None:
    guest = Printed(printed, 127, "sh: 1: python3: not found")
    with pytest.raises(NoPython, match="hive has no python3"):
        asked(guest, manifest(tmp_path))
    assert [argv[0] for argv in guest.asked] == ["python3"]


def test_this_machine_without_python_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramMissing):
        GUEST.run(["python3", "-c", ""])
    with pytest.raises(NoPython, match="this machine has no python3"):
        asked(GUEST, manifest(tmp_path))


def test_a_request_runs_with_the_python_that_it_names(tmp_path: Path) -> None:
    guest = Printed(line(code=0, value=None))
    asked(guest, manifest(tmp_path), python="/opt/tree/bin/python")
    assert list(guest.asked[0][:4]) == ["/opt/tree/bin/python", "-I", "-S", "-c"]
