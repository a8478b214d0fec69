"""Find what uses a folder: processes, units of systemd, and containers. Runs on the machine that has it."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any

from paddock.onboard.program.refusal import Refusal
from paddock.onboard.stream.layout import Json

_SECONDS = 240
_MOST = 16 << 20  # bytes of each stream


class Failed(Refusal):
    """A program of the machine failed."""


def output(words: list[str], uid: int | None = None) -> str | None:
    """Run a program and return its output, or None if it is missing or fails."""
    try:
        done = _run(words, uid)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def must(words: list[str], uid: int | None = None) -> None:
    """Run a program that has to succeed."""
    try:
        done = _run(words, uid)
    except OSError as error:
        raise Failed(f"{' '.join(words)}: {error}") from None
    if done.returncode:
        raise Failed(f"{' '.join(words)} failed: {done.stderr.strip()[-300:]}")


def systemctl(uid: int | None) -> list[str]:
    """Return the beginning of a command for the systemd of the machine, or of an account."""
    return ["systemctl"] if uid is None else ["systemctl", "--user"]


def _run(words: list[str], uid: int | None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    options: dict[str, Any] = {}
    if uid is not None:
        account = pwd.getpwuid(uid)
        runtime = f"/run/user/{uid}"
        environment.update(HOME=account.pw_dir, XDG_RUNTIME_DIR=runtime)
        environment["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={runtime}/bus"
        if os.geteuid() == 0 and uid != 0:
            options = {"user": uid, "group": account.pw_gid, "extra_groups": []}
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd="/", env=environment, start_new_session=True, **pipes, **options) as child:
        timer = threading.Timer(_SECONDS, _kill, [child])
        timer.start()
        try:
            said: list[bytes] = []
            beside = threading.Thread(target=lambda: said.append(_head(child, child.stderr)))
            beside.start()
            printed = _head(child, child.stdout)
            beside.join()
            code = child.wait()
        finally:
            timer.cancel()
    texts = (each.decode(errors="replace") for each in (printed, *said))
    return subprocess.CompletedProcess(words, code, *texts)


def _head(child: subprocess.Popen[bytes], pipe: IO[bytes] | None) -> bytes:
    """Read what a program prints. One that prints too much is killed: what an account says may have no end."""
    data = pipe.read(_MOST + 1) if pipe else b""
    if len(data) > _MOST:
        _kill(child)
    return data[:_MOST]


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


_CONTAINER = re.compile(r"[/-]([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_USER_UNIT = re.compile(r"/user@(\d+)\.service/(?:[^/]+\.slice/)*([^/]+\.service)(?:/|$)")
_UNIT = re.compile(r"^/(?:[^/]+\.slice/)*([^/]+\.service)(?:/|$)")
_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]+\.service")
_SYSTEM = ("/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_LONGEST_UNIT = 256 << 10
_RUNS = ("active", "activating", "reloading", "deactivating")
_COMPOSE = "com.docker.compose.project.working_dir"


class Users:
    """The users of one folder."""

    def __init__(self, folder: str, order: Json, inodes: set[tuple[int, int]]) -> None:
        self.folder = folder
        self.order = order
        self.inodes = inodes
        found = os.stat(folder)
        self.top = (found.st_dev, found.st_ino)
        self.containers = {each["id"]: each for each in self._containers()}

    def processes(self) -> list[int]:
        """Return the processes that have files of the folder open, or that are told to use it."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
        return [pid for pid in pids if self._holds(pid) or self._is_told(pid)]

    def _holds(self, pid: int) -> bool:
        paths = [f"/proc/{pid}/cwd", f"/proc/{pid}/root", f"/proc/{pid}/exe"]
        for folder in (f"/proc/{pid}/fd", f"/proc/{pid}/map_files"):
            try:
                paths += [f"{folder}/{name}" for name in os.listdir(folder)]
            except OSError:
                continue
        return any(_identity(path) in self.inodes for path in paths)

    def _is_told(self, pid: int) -> bool:
        """Return whether the environment of a process names the folder, also by its path in a container."""
        variable = self.order["variable"]
        if not variable:
            return False
        environment = dict(each.partition("=")[::2] for each in _words(pid, "environ"))
        named = environment.get(variable)
        if named is None and self._runs_program(_words(pid, "cmdline")) and environment.get("HOME"):
            named = os.path.join(environment["HOME"], self.order["becomes"])
        if not named or not named.startswith("/"):
            return False
        return _identity(f"/proc/{pid}/root{named}") == self.top

    def _runs_program(self, words: list[str]) -> bool:
        return any(os.path.basename(word) in self.order["programs"] for word in words)

    def described(self) -> Json:
        """Return units, containers, and the processes that belong to neither."""
        units = {(each["name"], each["uid"]): each for each in self._units_by_text()}
        containers = {number: each for number, each in self.containers.items() if each["mounts"]}
        others = []
        pids = self.processes()
        for pid in pids:
            number, unit = _supervisor(pid)
            if number in self.containers:
                containers[number] = self.containers[number]
            elif unit and (unit in units or self._is_for_it(unit, pids)):
                units.setdefault(unit, {"name": unit[0], "uid": unit[1]})
            else:
                others.append({"pid": pid, "name": _name(pid)})
        return {
            "units": [{**each, "active": _shown(each, "ActiveState") in _RUNS} for each in units.values()],
            "containers": [{key: each[key] for key in ("id", "name", "active")} for each in containers.values()],
            "others": others[:20],
        }

    def _is_for_it(self, unit: tuple[str, int | None], pids: list[int]) -> bool:
        """Return whether the main process of a unit uses the folder. A shell of a person may be in the unit of ssh."""
        main = _shown({"name": unit[0], "uid": unit[1]}, "MainPID")
        return not unit[0].startswith("paddock-") and main.isdigit() and int(main) in pids

    def _units_by_text(self) -> Iterator[Json]:
        """Yield the units whose files name the folder, or start the program for the account whose folder it is."""
        for name, path, uid in _unit_files():
            try:
                # The account may replace the file by a pipe.
                with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8", errors="replace") as file:
                    text = file.read(_LONGEST_UNIT)
            except OSError:
                continue
            if _UNIT_NAME.fullmatch(name) and not name.startswith("paddock-") and self._is_named(text, uid):
                yield {"name": name, "uid": uid}

    def _is_named(self, text: str, uid: int | None) -> bool:
        folders = [self.folder, *(each["compose"] for each in self.containers.values() if each["mounts"])]
        for folder in filter(None, folders):
            if re.search(rf"(?<![\w.-]){re.escape(folder)}(?![\w.-])", text):
                return True
        programs = "|".join(map(re.escape, self.order["programs"]))
        starts = programs and re.search(rf"(?m)^ExecStart\s*=(?:.*[\s/\"'])?(?:{programs})(?:[\s\"']|$)", text)
        if not starts or (self.order["variable"] and self.order["variable"] in text):
            return False
        account = re.search(r"(?m)^User\s*=\s*(\S+)\s*$", text)
        home = _home(account[1] if account else "root") if uid is None else pwd.getpwuid(uid).pw_dir
        return home is not None and _identity(os.path.join(home, self.order["becomes"])) == self.top

    def _containers(self) -> Iterator[Json]:
        """Yield the containers of Docker, with whether they mount the folder."""
        numbers = (output(["docker", "ps", "--all", "--quiet", "--no-trunc"]) or "").split()
        listed = output(["docker", "inspect", "--type", "container", *numbers]) if numbers else None
        for each in json.loads(listed or "[]"):
            if not re.fullmatch(r"[0-9a-f]{64}", str(each["Id"])):
                continue
            mounts = [str(mount.get("Source", "")) for mount in each.get("Mounts") or ()]
            labels = (each.get("Config") or {}).get("Labels") or {}
            yield {
                "id": each["Id"],
                "name": str(each.get("Name", "")).lstrip("/"),
                "active": bool(each["State"]["Running"] or each["State"].get("Restarting")),
                "mounts": any(_identity(path) in self.inodes for path in mounts if path),
                "compose": str(labels.get(_COMPOSE, "")),
            }


def _unit_files() -> Iterator[tuple[str, str, int | None]]:
    """Yield name and path of each unit, and the account whose systemd has it."""
    folders: list[tuple[str, int | None]] = [(folder, None) for folder in _SYSTEM]
    accounts = pwd.getpwall() if os.geteuid() == 0 else [pwd.getpwuid(os.geteuid())]
    folders += [(f"{each.pw_dir}/.config/systemd/user", each.pw_uid) for each in accounts]
    seen = set()
    for folder, uid in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if name.endswith(".service") and (name, uid) not in seen and os.path.isfile(f"{folder}/{name}"):
                seen.add((name, uid))
                yield name, f"{folder}/{name}", uid


def _supervisor(pid: int) -> tuple[str | None, tuple[str, int | None] | None]:
    """Return the container or the unit that a process belongs to."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            groups = [line.rstrip("\n").split(":", 2)[2] for line in file if line.count(":") >= 2]
    except OSError:
        return None, None
    for group in groups:
        if found := _CONTAINER.search(group):
            return found[1], None
        if (found := _USER_UNIT.search(group)) and _UNIT_NAME.fullmatch(found[2]):
            return None, (found[2], int(found[1]))
    for group in groups:
        found = _UNIT.search(group)
        if found and _UNIT_NAME.fullmatch(found[1]) and not found[1].startswith("user@"):
            return None, (found[1], None)
    return None, None


def _shown(unit: Json, name: str) -> str:
    words = [*systemctl(unit["uid"]), "show", "--property", name, "--value", "--", unit["name"]]
    return (output(words, unit["uid"]) or "").strip()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _words(pid: int, name: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return [os.fsdecode(word) for word in file.read(1 << 20).split(b"\0")]
    except OSError:
        return []


def _name(pid: int) -> str:
    return " ".join(_words(pid, "cmdline"))[:100].strip() or "?"


def _home(account: str) -> str | None:
    try:
        return pwd.getpwnam(account).pw_dir
    except KeyError:
        return None
