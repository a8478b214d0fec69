"""Work on a machine with `shell`, `exec`, `logs` and `forward`: over ssh, and with `pct exec` on the node."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.keyboard import keyboard
from levels import slow_proof
from live.node import Node
from live.node_ssh import with_ssh
from live.test_pet_and_cattle import Web
from sshd import Sshd, free_port, sshd

pytestmark = pytest.mark.live

# The node's shell is an sshd of the test machine, in a mount namespace of its own. `pct` leaves that namespace.
PCT = """\
#!/bin/sh
exec nsenter --target {pid} --mount env PYTHONPATH={path} {python} -m pvebox root --state {state} -- pct "$@"
"""
# Records the arguments of every ssh, and lets none go anywhere but to the node.
ONLY_NODE = """\
#!/bin/sh
printf "%s\\n" "$*" >>{folder}/ssh-calls
case " $* " in *" -p {port} -l root "*"127.0.0.1 -- "*) exec {folder}/bin/real-ssh "$@" ;; esac
echo "no route to host" >&2
exit 255
"""


@pytest.fixture(scope="module")
def shell_of_node(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sshd, Node]]:
    """Start the node's sshd; return it, and the node for commands that can reach nothing else over ssh."""
    folder = tmp_path_factory.mktemp("node")
    bin_ = folder / "node-bin"
    bin_.mkdir()
    pct = bin_ / "pct"
    state, path = node.stage.folder / "sandbox", os.environ.get("PYTHONPATH", "")
    pct.write_text(PCT.format(pid=os.getpid(), path=path, python=sys.executable, state=state))
    pct.chmod(0o755)
    settings = f"SetEnv PATH={bin_}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    with sshd(folder, node.stage.folder / "id_ed25519.pub", settings) as server:
        person = tmp_path_factory.mktemp("person")
        reaching = with_ssh(node, person)
        (person / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {server.key}\n")
        (person / "bin/ssh").rename(person / "bin/real-ssh")
        for name, script in (("ssh", ONLY_NODE), ("ssh-keyscan", "#!/bin/sh\nexit 1\n")):
            program = person / "bin" / name
            program.write_text(script.format(folder=person, port=server.port))
            program.chmod(0o755)
        yield server, reaching


class Entered(Web):
    """A service, and how its machine is reached."""

    def __init__(self, node: Node, name: str, *reach: str) -> None:
        super().__init__(node, name)
        self.spec["secrets"] = {"TOLD": {"env": "TOLD_SECRET"}}
        self.reach = reach

    def paddock(self, *words: str, fails: bool = False) -> str:
        verb = 2 if words[0] == "template" else 1
        return super().paddock(*words[:verb], *self.reach, *words[verb:], fails=fails)

    def command(self, *words: str) -> list[str]:
        file = self.node.stage.folder / f"{self.name}.yaml"
        return [sys.executable, "-m", "paddock", words[0], "-f", str(file), *self.reach, *words[1:]]


@pytest.fixture(scope="module", params=["ssh", "pct"])
def web(request: pytest.FixtureRequest, node: Node) -> Iterator[Entered]:
    secret = "sent-to-the-agent-only-8731"
    if request.param == "ssh":
        found = Entered(node.with_environment(TOLD_SECRET=secret), "entered-ssh")
    else:
        server, reaching = request.getfixturevalue("shell_of_node")
        settings = (f"root=root@127.0.0.1:{server.port}", "reach=pct")
        reach = [word for each in settings for word in ("--set", f"places.box.proxmox.ssh.{each}")]
        found = Entered(reaching.with_environment(TOLD_SECRET=secret), "entered-pct", *reach)
    try:
        found.paddock("up")
        yield found
    finally:
        found.remove()


def test_exec_passes_arguments_input_and_exit_code(web: Entered) -> None:
    words = ["a b", "$HOME", "it's", 'x"y', "*", ";", ""]
    assert web.paddock("exec", web.name, "--", "printf", "<%s>", *words) == "".join(f"<{word}>" for word in words)
    command = web.command("exec", web.name, "--", "sh", "-c", "cat; id -un; exit 7")
    environment = dict(web.node.stage.environment)
    done = subprocess.run(command, env=environment, cwd=web.node.stage.folder, input=b"a\0b\n", capture_output=True)
    assert (done.returncode, done.stdout) == (7, b"a\0b\nservice\n"), done.stderr


def test_a_shell_is_the_agents_on_a_terminal_of_its_own(web: Entered) -> None:
    exports = " ".join(f"{name}={shlex.quote(web.node.stage.environment[name])}" for name in _needed(web))
    with keyboard() as person:
        person.resize(31, 97)
        person.type(f"cd {web.node.stage.folder} && env {exports} {shlex.join(web.command('shell', web.name))}\n")
        for _ in range(30):  # the shell may not read its input yet
            person.type("echo user=$(id -un) size=$(stty size) home=$HOME\n")
            if person.sees(f"user=service size=31 97 home=/var/lib/paddock/{web.name}/home", 1):
                break
        person.expect(f"user=service size=31 97 home=/var/lib/paddock/{web.name}/home")
        person.type("exit 5\n")
        time.sleep(1)
        person.type("echo code=$?\n")
        person.expect("code=5")


def _needed(web: Entered) -> list[str]:
    names = ("PATH", "PVE_TOKEN", "STANDIN_KEY", "TOLD_SECRET", "XDG_DATA_HOME", "XDG_STATE_HOME", "PYTHONPATH")
    return [name for name in names if name in web.node.stage.environment]


def test_logs_are_followed_until_ctrl_c(web: Entered) -> None:
    running = subprocess.Popen(
        web.command("logs", web.name, "--follow"),
        cwd=web.node.stage.folder,
        env=dict(web.node.stage.environment),
        stdout=subprocess.PIPE,
        process_group=0,
    )
    try:
        assert running.stdout is not None
        _read(running, "", 2)
        web.paddock("restart", web.name)
        assert "Started" in _read(running, "Started", 30)
        os.kill(running.pid, signal.SIGINT)
        assert running.wait(20) == 130
    finally:
        if running.poll() is None:
            running.kill()
        running.communicate()


def _read(running: subprocess.Popen[bytes], until: str, seconds: float) -> str:
    assert running.stdout is not None
    shown, end = "", time.monotonic() + seconds
    while time.monotonic() < end and not (until and until in shown):
        if select.select([running.stdout], [], [], 0.1)[0]:
            shown += os.read(running.stdout.fileno(), 65536).decode()
    return shown


def test_a_port_is_forwarded_until_ctrl_c(web: Entered) -> None:
    local = free_port()
    command = web.command("forward", web.name, "8080", "--local", str(local))
    with subprocess.Popen(
        command,
        cwd=web.node.stage.folder,
        env=dict(web.node.stage.environment),
        stderr=subprocess.PIPE,
        process_group=0,
    ) as running:
        try:
            assert _fetched(f"http://127.0.0.1:{local}/hostname").strip() == web.name
            os.kill(running.pid, signal.SIGINT)
            assert running.wait(20) == 130
            assert running.stderr is not None
            assert f"http://127.0.0.1:{local} is port 8080 of {web.name}" in running.stderr.read().decode()
        finally:
            if running.poll() is None:
                running.kill()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{local}/hostname", timeout=5)


def _fetched(url: str) -> str:
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=20) as response:
                return str(response.read().decode())
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.2)


@slow_proof
def test_through_the_node_a_machine_is_cycled_verified_and_no_secret_is_an_argument(
    shell_of_node: tuple[Sshd, Node], web: Entered
) -> None:
    if not web.reach:
        pytest.skip("only for pct")
    assert "pct exec: `up` does it as root@127.0.0.1" in web.paddock("doctor")
    web.write_fact("kept")
    web.paddock("cycle")
    assert web.fact() == "kept"
    web.paddock("verify")
    assert web.paddock("up") == f"{web.name}: nothing to do, and healthy\n"
    calls = next(Path(path) for path in web.node.stage.environment["PATH"].split(":")).parent / "ssh-calls"
    said = calls.read_text()
    assert "pct exec " in said
    assert "sent-to-the-agent-only-8731" not in said
