"""Runs on the machine, by itself, as whoever manages it: looks at what the question on stdin names; judges nothing."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

LARGEST = 1 << 20  # of a file that is searched for secrets
LONGEST = 4.0  # seconds for all of them: a machine that is somebody's may have any number of files
MOST = 4 << 20  # bytes of what a program says: some of it is the agent's, which may say anything
NO_SUCH_PROGRAM = 127
SHORTEST = 6  # a shorter value is found everywhere and hides nothing
Json = dict[str, Any]


def main() -> None:
    question = json.load(sys.stdin)
    os.nice(5)  # the agent, which is to answer meanwhile, comes first
    running, dropped = supervised(question["supervisor"])
    started = [running[name]["pid"] for name in question["processes"] if running.get(name, {}).get("pid")]
    pids = agents_own(started)
    looks: dict[str, Callable[[], Any]] = {
        "inside": lambda: inside(question["inside"]),
        "state": lambda: state(question["folders"]),
        "lease": lambda: lease(question["lease_file"], question["holder_file"]),
        "configuration": lambda: configuration(question["etc"], question["files"]),
        "ports": lambda: ports(question["ports"], pids, alone=question["alone"]),
    }
    if question["all"]:
        looks["code"] = lambda: code(question["tree"])
        looks["isolation"] = lambda: {str(pid): isolation(pid) for pid in pids}
        looks["listening"] = lambda: listening(pids, alone=question["alone"])
        looks["leaks"] = lambda: leaks(question["env_files"], question["search"], question["logs"])
    with ThreadPoolExecutor(max_workers=len(looks)) as pool:
        running_looks = {name: pool.submit(timed, look) for name, look in looks.items()}
    found = {name: look.result() for name, look in running_looks.items()}
    about = {"processes": running, "dropped": dropped, "now": time.time(), "uid": os.geteuid()}
    print(json.dumps({**about, **found}))


def timed(look: Callable[[], Any]) -> Json:
    start = time.monotonic()
    try:
        found: Json = {"found": look()}
    except OSError as error:  # what was looked at went away meanwhile, or is not for this account
        found = {"refused": str(error)}
    return {**found, "seconds": time.monotonic() - start}


class Said:
    """What a program said and how it ended; of more than MOST bytes only the beginning, and then it was ended."""

    def __init__(self, argv: list[str], stdin: bytes = b"") -> None:
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        # In a session of its own, so that all of it can be ended.
        with subprocess.Popen(argv, **pipes, start_new_session=True) as child, ThreadPoolExecutor(3) as pool:
            pool.submit(self.feed, child, stdin)
            out, err = pool.submit(self.head, child, child.stdout), pool.submit(self.head, child, child.stderr)
        self.out, self.err = out.result()[:MOST], err.result()[:MOST]
        self.cut = len(out.result()) > MOST or len(err.result()) > MOST
        self.code = child.returncode

    @staticmethod
    def feed(child: subprocess.Popen[bytes], stdin: bytes) -> None:
        with contextlib.suppress(BrokenPipeError), child.stdin or contextlib.nullcontext():
            child.stdin.write(stdin)  # type: ignore[union-attr]

    @staticmethod
    def head(child: subprocess.Popen[bytes], stream: Any) -> bytes:
        data = bytes(stream.read(MOST + 1))
        if len(data) > MOST:
            os.killpg(child.pid, signal.SIGKILL)  # it is not waited for yet, so the number is still its own
        return data


def supervised(argv: list[str]) -> tuple[dict[str, Json], list[str]]:
    """The agent's processes, from the runtime's report, and which ways of confining were dropped."""
    found: dict[str, Json] = {}
    dropped: list[str] = []
    for record in Said(argv).out.decode(errors="replace").split("\0"):
        name, _, value = record.partition("=")
        if name == "dropped":
            dropped.append(value)
        elif name == "container.pid" and "container" in found:
            found["container"]["pid"] = int(value)
        elif name.startswith("process."):
            state, pid, restarts, since = value.split()
            found[name[len("process.") :]] = {
                "state": state,
                "pid": int(pid),
                "restarts": int(restarts),
                "since": float(since),
            }
    return found, dropped


def agents_own(started: list[int]) -> list[int]:
    """Of what was started the first processes that are not root's, of a container's neither; all, if root is all."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found, left = [], list(started)
    while left:
        pid = left.pop()
        uid = account(pid)
        if uid is not None and not is_root(pid, uid):
            found.append(pid)
        else:
            left += children.get(pid, [])
    return found or started


def account(pid: int) -> int | None:
    """Whose a process is; None when it has ended."""
    found = re.search(r"^Uid:\t(\d+)", text(f"/proc/{pid}/status"), re.MULTILINE)
    return int(found[1]) if found else None


def is_root(pid: int, uid: int) -> bool:
    """Whether a process with this number here is root where it runs."""
    if uid == 0 or content(f"/proc/{pid}/uid_map") == content("/proc/self/uid_map"):
        return uid == 0
    ranges = (map(int, line.split()) for line in rows(f"/proc/{pid}/uid_map"))
    return any(inside == 0 and uid == outside for inside, outside, _ in ranges)


def inside(question: Json) -> Json:
    done = Said([*question["argv"], question["program"]], json.dumps(question["questions"]).encode())
    if done.cut:
        return {"refused": f"it said more than {MOST >> 20} MiB and was cut off"}
    try:
        return dict(json.loads(done.out))
    except (ValueError, TypeError, RecursionError):  # it runs as the agent, who can make it say anything
        said = (done.err or done.out).decode(errors="replace").strip()
        return {"missing" if done.code == NO_SUCH_PROGRAM else "refused": f"code {done.code}: {said[-500:]}"}


def state(folders: list[str]) -> Json:
    found: Json = {"folders": {each: owner(each) for each in folders}, "mounted": os.path.ismount(folders[0])}
    if os.path.isdir(folders[0]):
        room = os.statvfs(folders[0])
        found["size"], found["free"] = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
        found["files_free"] = room.f_favail if room.f_files else None
    return found


def owner(path: str) -> Json | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return {"mode": f"{stat.S_IMODE(found.st_mode):o}", "uid": found.st_uid, "gid": found.st_gid}


def lease(path: str, holder_file: str) -> Json:
    """Whether the lock is held, and by which processes that can be seen from here."""
    try:
        with open(path, "rb") as lock:
            wanted = os.fstat(lock.fileno())
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                held = False
            except BlockingIOError:
                held = True
    except OSError as error:
        return {"held": False, "holders": [], "holder": "", "missing": error.strerror}
    holders = {pid for pid, fd in open_files((wanted.st_dev, wanted.st_ino)) if "\nlock:" in fdinfo(pid, fd)}
    return {"held": held, "holders": sorted(holders), "holder": text(holder_file).strip()}


def open_files(wanted: tuple[int, int]) -> Iterator[tuple[int, str]]:
    for pid in all_pids():
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for fd in descriptors:
            try:
                found = os.stat(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if pid != os.getpid() and (found.st_dev, found.st_ino) == wanted:
                yield pid, fd


def fdinfo(pid: int, fd: str) -> str:
    return text(f"/proc/{pid}/fdinfo/{fd}")


def configuration(etc: str, files: list[str]) -> Json:
    found: dict[str, Json | None] = {}
    for name in files:
        path = os.path.join(etc, name)
        known = owner(path)
        found[name] = known and {**known, "sha256": digest(path).hex()}
    return {"bundle": os.path.basename(os.path.realpath(etc)), "files": found}


def digest(path: str) -> bytes:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(LARGEST), b""):
            found.update(block)
    return found.digest()


def code(tree: str | None) -> Json | None:
    """A code tree compared with what each of its packages recorded of itself."""
    if tree is None:
        return None
    folders = glob.glob(tree + "/lib/python3*/site-packages")
    if not folders:
        return {"missing": tree}
    top = folders[0]
    recorded = {}
    for record in glob.glob(top + "/*.dist-info/RECORD"):
        for line in rows(record):
            name, sha256, _ = line.rsplit(",", 2)
            path = os.path.normpath(os.path.join(top, name.strip('"')))
            # Launchers name an interpreter of where they were built, and are not shipped.
            if path.startswith(top + "/") and not path.startswith(top + "/bin/"):
                recorded[path] = sha256.partition("=")[2]
    changed, added, loose = [], [], []
    with ThreadPoolExecutor() as pool:
        present = dict(pool.map(recorded_form, walk(top)))
    for path, (sha256, writable) in present.items():
        if writable:
            loose.append(path)
        if path in recorded:
            if recorded[path] and sha256 != recorded[path]:
                changed.append(path)
        elif not path.endswith(".pyc") and path != top + "/.lock":  # uv's own
            added.append(path)
    missing = [path for path in recorded if path not in present and not path.endswith(".pyc")]
    return {"files": len(present), "changed": changed, "added": added, "missing": missing, "loose": loose}


def walk(top: str) -> Iterator[str]:
    for folder, _, files in os.walk(top):
        for name in files:
            yield os.path.join(folder, name)


def recorded_form(path: str) -> tuple[str, tuple[str, bool]]:
    found = os.lstat(path)
    loose = bool(found.st_mode & 0o022) or found.st_uid not in (0, os.geteuid())
    if path.endswith(".pyc"):
        return path, ("", loose)
    return path, (base64.urlsafe_b64encode(digest(path)).decode().rstrip("="), loose)


def isolation(pid: int) -> Json:
    """What the kernel says of a process."""
    folder = f"/proc/{pid}/"
    status = dict(line.split(":\t", 1) for line in rows(folder + "status") if ":\t" in line)
    mounts: dict[str, str] = {}
    for line in rows(folder + "mountinfo"):
        words, _, ends = line.partition(" - ")
        where, options = words.split()[4:6]
        if where in ("/proc", "/proc/sys", "/sys"):
            mounts[where] = options + "," + ends.split()[2]
    return {
        "uid": status.get("Uid", "").split()[:1],
        "uid_map": text(folder + "uid_map").split(),
        "effective": status.get("CapEff"),
        "bounding": status.get("CapBnd"),
        "no_new_privileges": status.get("NoNewPrivs"),
        "seccomp": status.get("Seccomp"),
        "mounts": mounts,
        "among_its_own": os.readlink(folder + "ns/pid") != os.readlink("/proc/self/ns/pid"),
        "apparmor": text(folder + "attr/current").strip("\0\n "),
        "apparmor_enabled": text("/sys/module/apparmor/parameters/enabled").strip() == "Y",
    }


def listening(pids: list[int], *, alone: bool) -> list[list[Any]]:
    """Where the agent listens."""
    own = own_sockets(pids, alone=alone)
    return sorted([host, port] for host, port, uid, inode in listeners(pids[:1]) if own(uid, inode))


def ports(wanted: list[int], pids: list[int], *, alone: bool) -> Json:
    """Who else listens on these ports, and on which ports the agent does."""
    own = own_sockets(pids, alone=alone)
    found = [(port, inode, own(uid, inode)) for _, port, uid, inode in listeners([os.getpid()])]
    others = {inode: port for port, inode, its_own in found if port in wanted and not its_own}
    holders = {inode: pid for pid in sorted(all_pids(), reverse=True) for inode in sockets({pid})} if others else {}
    return {
        "own": sorted({port for port, _, its_own in found if its_own}),
        "others": [
            {"port": port, "pid": holders[inode], "name": text(f"/proc/{holders[inode]}/comm").strip()}
            for inode, port in others.items()
            if inode in holders
        ],
    }


def own_sockets(pids: list[int], *, alone: bool) -> Callable[[int, str], bool]:
    """Whether a socket is the agent's: of its account, or where that is shared, of its processes and their children."""
    if alone:
        accounts = {account(pid) for pid in pids}
        return lambda uid, _: uid in accounts
    inodes = set(sockets(descendants(set(pids))))
    return lambda _, inode: inode in inodes


def listeners(seen_by: list[int]) -> Iterator[tuple[str, int, int, str]]:
    """Address, port, user and inode of each socket that a process would find listening on its machine."""
    for pid in seen_by:
        for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
            for row in rows(f"/proc/{pid}/net/{table}")[1:]:
                words = row.split()
                if words[3] == "0A":
                    host, port = words[1].split(":")
                    yield address(host, family), int(port, 16), int(words[7]), words[9]


def address(words: str, family: int) -> str:
    raw = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    return socket.inet_ntop(family, raw)


def parents() -> dict[int, int]:
    found = {}
    for pid in all_pids():
        # The name in the middle may hold anything, also blanks and brackets.
        fields = text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if fields:
            found[pid] = int(fields[1])
    return found


def descendants(pids: set[int]) -> set[int]:
    known, found = parents(), set(pids)
    while True:
        more = {pid for pid, parent in known.items() if parent in found} - found
        if not more:
            return found
        found |= more


def sockets(pids: set[int]) -> Iterator[str]:
    for pid in pids:
        for link in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                match = re.match(r"socket:\[(\d+)\]", os.readlink(link))
            except OSError:
                continue
            if match:
                yield match[1]


def leaks(env_files: list[str], search: list[str], logs: list[str]) -> Json:
    """Where a value of the agent's secrets can be read by everyone, by the names of the secrets."""
    values = secret_values(env_files)
    found: dict[str, list[str]] = {}
    looked, end = 0, time.monotonic() + LONGEST
    for path in chain(glob.glob("/proc/[0-9]*/cmdline"), open_texts(search)):
        if time.monotonic() > end:
            break
        looked += 1
        data = content(path)
        for name in names_in(data, values):
            found.setdefault(name, []).append(path)
    log = Said(logs)
    for name in names_in(log.out, values):
        found.setdefault(name, []).append("its log")
    cut_short = log.cut or time.monotonic() > end
    return {"values": len(values), "looked": looked, "cut_short": cut_short, "found": found}


def secret_values(env_files: list[str]) -> dict[str, list[bytes]]:
    values = {}
    for path in env_files:
        for line in rows(path):
            name, _, value = line.partition("=")
            if value[:1] == '"':
                value = re.sub(r"\\(.)", r"\1", value[1:-1])
            if len(value) >= SHORTEST:
                encoded = base64.b64encode(value.encode()).rstrip(b"=")
                values[name] = [value.encode(), encoded]
    return values


def names_in(data: bytes, values: dict[str, list[bytes]]) -> list[str]:
    return [name for name, forms in values.items() if any(form in data for form in forms)]


def open_texts(tops: list[str]) -> Iterator[str]:
    """The files below these folders that everyone can get at and read."""
    for top in tops:
        for folder, below, files in os.walk(top):
            if not others(folder, stat.S_IXOTH):
                below.clear()
                continue
            for name in files:
                path = os.path.join(folder, name)
                if others(path, stat.S_IROTH):
                    yield path


def others(path: str, right: int) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return bool(mode & right) and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def content(path: str) -> bytes:
    try:
        # Never through a link, and never waiting for a pipe, which an agent may have put in the place of a file.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return file.read(LARGEST) or b""
    except OSError:
        return b""


def text(path: str) -> str:
    return content(path).decode(errors="replace")


def rows(path: str) -> list[str]:
    """The lines of a file. Only a line feed ends one: an agent names its processes and mounts as it likes."""
    return [line for line in text(path).split("\n") if line]


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


main()
