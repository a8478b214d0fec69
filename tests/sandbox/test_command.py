"""The command line: its help, its messages and what it prints on a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pvebox import main
from pvebox.standins.stage import free_port

VERBS = ["serve", "up", "down", "reset", "clean", "status", "token", "root", "fault", "logs", "probe"]
NAMES = ["pvebox", "paddock sandbox"]


def help_text(argv: list[str], program: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*argv, "--help"], program)
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("program", NAMES)
def test_the_help_says_what_changes_on_the_machine_and_how_it_is_removed(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = help_text([], program, capsys)
    for words in ("bridge", "dnsmasq", "iptables", "IP forwarding", "/run/pvebox", "~/.cache/pvebox", "127.0.0.1"):
        assert words in said
    assert f"`{program} down` removes" in said
    assert f"`{program} clean` deletes" in said


@pytest.mark.parametrize("verb", [[], *([verb] for verb in VERBS)], ids=["pvebox", *VERBS])
def test_the_help_names_the_program_that_the_user_called(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    called = help_text(verb, "paddock sandbox", capsys)
    assert called.startswith("usage: paddock sandbox")
    assert "pvebox " not in called.replace("/pvebox ", "")
    assert "{" not in called.replace("{lxc,memory}", "")


@pytest.mark.parametrize("program", NAMES)
def test_a_hint_names_the_program_that_the_user_called(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in (["token"], ["root", "--", "true"], ["fault", "list"]):
        assert main([argv[0], "--state", str(tmp_path / "state"), *argv[1:]], program) == 1
        assert f"Start one with `{program} up`." in capsys.readouterr().err


def test_up_prints_no_secret_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = ["--state", str(tmp_path / "state")]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    try:
        assert main(["up", "--runtime", "memory", "--port", "0", *state]) == 0
        said = capsys.readouterr().out
        assert main(["token", "root@pam!sandbox", *state]) == 0
        name, _, secret = capsys.readouterr().out.strip().partition("=")
    finally:
        main(["clean", *state])
    assert "https://127.0.0.1:" in said
    assert name in said
    assert secret not in said


def test_without_the_extra_the_help_works_and_a_message_names_the_extra(tmp_path: Path) -> None:
    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        program = (
            "import sys\n"
            "sys.modules['starlette'] = sys.modules['uvicorn'] = None\n"
            "import pvebox\n"
            "sys.exit(pvebox.main(sys.argv[1:]))\n"
        )
        return subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=False)

    assert run("--help").returncode == 0
    served = run("serve", "--runtime", "memory", "--port", "0", "--state", str(tmp_path / "state"))
    assert served.returncode == 1
    assert "pip install '.[sandbox]'" in served.stderr
    assert "Traceback" not in served.stderr


def test_a_sandbox_keeps_the_runtime_that_it_was_created_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ["--state", str(tmp_path / "state")]
    try:
        for options in (["--runtime", "memory"], []):
            assert main(["up", "--port", "0", *options, *state]) == 0
            assert main(["down", *state]) == 0
        capsys.readouterr()
        assert main(["up", "--runtime", "lxc", *state]) == 1
        assert "was created with --runtime memory" in capsys.readouterr().err
    finally:
        main(["clean", *state])


def test_without_options_a_sandbox_starts_as_it_did_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = ["--state", str(tmp_path / "state")]
    started = []
    try:
        for options in (["--runtime", "memory", "--port", str(free_port()), "--model"], []):
            assert main(["up", *options, *state]) == 0
            started.append(json.loads(capsys.readouterr().out))
            assert main(["down", *state]) == 0
        before, after = started
        assert (after["url"], after["model"]) == (before["url"], before["model"])
    finally:
        main(["clean", *state])
