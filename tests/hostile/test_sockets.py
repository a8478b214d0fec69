"""An agent with limited connections opens only kinds of sockets that the rules see, wherever its programs run."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hostile import agents
from hostile.ground import Machine, as_root
from hostile.stubs import ENGINE_STUB
from paddock.channels.sent import text
from paddock.kinds.workload import Process, Workload
from paddock.onboard.egress import families
from paddock.runtimes.engine.runtime import Engine
from paddock.runtimes.systemd.runtime import Systemd

pytestmark = as_root

# Prints the error number of each kind of socket, and of a ring, or 0.
PROBE: Final = """
import ctypes, json, socket
def error(family, pair=False):
    try:
        ends = socket.socketpair(family) if pair else [socket.socket(family, 2)]
        for end in ends:
            end.close()
        return 0
    except OSError as refused:
        return refused.errno
libc = ctypes.CDLL(None, use_errno=True)
found = {"families": [number for number in range(64) if error(number) != 97], "pair": error(1, True)}
found["other pair"] = error(30, True)
ctypes.set_errno(0)
found["ring"] = 0 if libc.syscall(425, 1, None) >= 0 else ctypes.get_errno()
found["status"] = [line.split()[1] for line in open("/proc/self/status") if line.startswith(("NoNewPrivs", "Seccomp:"))]
print(json.dumps(found))
"""
LIMITED: Final = {
    "families": [1, 2, 10, 16],
    "pair": 0,
    "other pair": errno.EAFNOSUPPORT,
    "ring": errno.EPERM,
    "status": ["1", "2"],
}
CLOSED: Final[Mapping[str, Any]] = {"network": {"egress": []}}
RUN: Final = ["/usr/bin/python3", "-I", "-S", "-c", PROBE]


def kinds(said: str) -> dict[str, Any]:
    return dict(json.loads(said))


def prepared(ground: Machine, runtime: Systemd | Engine) -> None:
    ground.stub("docker", ENGINE_STUB)
    agents.installed(ground, runtime)
    home = runtime.inside.home
    if home != runtime.paths.home:  # as in a container
        ground.root('mkdir -p "$1" && mount --bind "$2" "$1"', home, runtime.paths.home)


def test_exec_and_shell_have_the_kinds_of_sockets_of_the_container(ground: Machine) -> None:
    runtime = agents.docker(**CLOSED)
    prepared(ground, runtime)
    result = ground.run(runtime.enter(RUN))
    assert result.ok, result.err
    assert kinds(result.out) == LIMITED


def test_the_processes_of_a_container_have_them_too(ground: Machine) -> None:
    runtime = agents.docker(**CLOSED)
    home = runtime.inside.home
    script = f"import sys; sys.stdout = open({home + '/found'!r}, 'w')\n{PROBE}"
    process = Process("main", ("/usr/bin/python3", "-I", "-S", "-c", script), {"HOME": home}, home, stop_seconds=1)
    ground.stub("docker", ENGINE_STUB)
    agents.installed(ground, runtime, Workload((process,), (), (), ()))
    ground.root('mkdir -p "$1" && mount --bind "$2" "$1"', home, runtime.paths.home)
    ours = "{ readlink /proc/self/ns/net; cat /proc/self/uid_map; }"
    ground.root(f'{ours} >"$1"', runtime.paths.etc.removesuffix("current") + "namespaces")
    result = ground.run(["/bin/sh", f"{runtime.paths.etc}/start"])
    assert kinds(ground.read(f"{home}/found")) == LIMITED, result.err


def test_the_entrypoint_of_an_image_has_them_too(tmp_path: Path) -> None:
    here = tmp_path / "home_bee/current"
    (here / "processes").mkdir(parents=True)
    shutil.copyfile(families.__file__, here / "families.py")
    (here / "bundle.env").write_text('DATA="/srv/agent"\nACCOUNT_HOME="/opt/data"\n')
    for path in (here / "environment", here.parent / "secrets.env", here.parent / "generated.env"):
        path.write_text("")
    (here / "processes/main").write_text('exec "$@"\n')
    start = text("start_image.sh").replace("/etc/cont-init.d", str(tmp_path / "none"))
    (here / "start").write_text(start)
    done = started(["/bin/sh", str(here / "start"), *RUN], "/usr/bin:/bin")
    assert kinds(done.stdout) == LIMITED
    # Without Python, the agent starts, and is told.
    (tmp_path / "bin").mkdir()
    for name in ("cat", "grep", "readlink"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    done = started(["/bin/sh", str(here / "start"), *RUN], str(tmp_path / "bin"))
    assert kinds(done.stdout)["status"] == ["0", "0"]
    assert "without python3 in the container, only its engine limits the kinds of sockets" in done.stderr


def started(argv: Sequence[str], path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, check=True, env={"PATH": path}, capture_output=True, text=True)


def test_the_program_keeps_environment_signals_and_descriptors(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("given\n")
    with (tmp_path / "secret").open() as secret:
        argv = ["/bin/sh", "-c", f"env; grep SigIgn /proc/self/status; cat /proc/self/fd/{secret.fileno()}"]
        plain = run_with(secret.fileno(), argv)
        limited = run_with(secret.fileno(), [sys.executable, "-I", "-S", families.__file__, *argv])
    assert plain == limited
    assert "given" in limited


def run_with(descriptor: int, argv: Sequence[str]) -> list[str]:
    given = {"A": "b", "PATH": "/bin"}
    done = subprocess.run(argv, check=True, env=given, capture_output=True, text=True, pass_fds=[descriptor])
    return done.stdout.splitlines()
