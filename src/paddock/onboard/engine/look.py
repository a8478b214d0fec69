"""Report the engine of an agent, its image, its container, and containers that it left in other engines."""

from __future__ import annotations

import io
import os
import re
import tarfile
import time

from paddock.onboard.agent import Agent, settings
from paddock.onboard.engine.containers import ENGINES, Container, Engine, all_of
from paddock.onboard.engine.images import described, image_id, is_made_from
from paddock.onboard.files import lines, text
from paddock.onboard.program.programs import environment, found, is_root, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_FOREIGN = "foreign"
_APT_STATES = "/var/lib/apt/extended_states"
_MOST = 4 << 20
_COPY_SECONDS = 60
_MESSAGE, _FIRST = re.compile(r'.* msg="(.*)"$'), r"\1"  # of Podman's errors
_ADDED = (
    re.compile(r"A /.*/(?:site|dist)-packages/([^/]*)-[^/-]*\.dist-info/REQUESTED"),
    re.compile(r"A /.*/lib/node_modules/([^/@]*|@[^/]*/[^/]*)"),
)
_PACKAGE = re.compile(r"A /var/lib/dpkg/info/([^/:]*)(?::[^/]*)?\.list")


def containers(agent: Agent, engine: Engine | None) -> dict[str, Any]:
    """Return what is known of the containers of an agent."""
    report: dict[str, Any] = {"left": {}, "formers": []}
    for other in ENGINES:
        if (engine is None or other != engine.program) and _may_be_asked(other):
            name, there = _first(other, agent)
            if there:
                report["left"][other] = sorted({*_layer(other, there, agent.root)})
                report["formers"] += _former(agent, name)
    if engine:
        report["container"] = _of_engine(agent, engine, report)
    return report


def _may_be_asked(engine: str) -> bool:
    """Whether an engine is here and runs. It is not started for this."""
    if not found(engine):
        return False
    if engine == "docker":
        return run(["systemctl", "is-active", "--quiet", "docker"]).ok
    return is_root() or os.path.isdir(f"{os.environ.get('HOME')}/.local/share/containers")


def _first(engine: str, agent: Agent) -> tuple[str, Container | None]:
    """Return the agent's container with the id by whose name it was found.

    It may have the name of a former id: before the agent is renamed, and in an engine that did not run when it was.
    """
    there = all_of(engine, [agent.id, *agent.formers])
    for each in (agent.id, *agent.formers):
        container = there.get(f"paddock-{each}")
        if container and container.is_ours(each, *agent.formers):
            return each, container
    return "", None


def _former(agent: Agent, name: str) -> list[str]:
    return [] if name == agent.id or os.path.islink(agent.current) else [name]


def _of_engine(agent: Agent, engine: Engine, report: dict[str, Any]) -> dict[str, Any]:
    program = engine.program
    if not found(program):
        return {"engine": "missing"}
    if not is_root() and not _has_users():
        account = os.environ.get("USER") or os.getuid()
        return {
            "engine": f"down: the account {account} has no newuidmap, or no range of users of its own in /etc/subuid"
        }
    working = run([program, "ps", "--quiet"])
    if not working.ok:
        last = working.err.strip().split("\n")[-1]
        return {"engine": f"down: {_MESSAGE.sub(_FIRST, last)}"}
    driver, _, live_restore = run([program, "info", "--format", engine.info]).out.strip().partition(" ")
    seen: dict[str, Any] = {"engine": "up", "driver": driver, "live_restore": live_restore == "true"}
    present = image_id(program, engine.image)
    images: dict[str, Any] = {}
    name, there = _first(program, agent)
    known = all_of(program, [agent.id])
    if there:
        report["formers"] += _former(agent, name)
        seen["identity"], seen["layer"] = there.identity, sorted({*_layer(program, there, agent.root)})
        if is_made_from(program, there.image, present):
            present = there.image  # the same image, perhaps with a layer on it
        former = known.get(f"paddock-{agent.id}.before")
        report["replaced"] = former is not None and former.is_ours(agent.id)
        images["runs"] = described(program, there.image)
        before = next((each for each in lines(f"{agent.root}/images")[:2] if each != there.image), "")
        images["before"] = described(program, before)
    elif f"paddock-{agent.id}" in known:
        seen["identity"] = _FOREIGN
    images["present"] = described(program, present)
    seen["images"] = [engine.image] if present else []
    return {**seen, "image": images}


def _has_users() -> bool:
    """Whether an account has users of its own. Podman itself would go on with a single user."""
    import pwd

    account = pwd.getpwuid(os.getuid()).pw_name
    ranges = text("/etc/subuid")
    return bool(found("newuidmap")) and (run(["getsubids", account]).ok or bool(re.search(f"(?m)^{account}:", ranges)))


def _layer(engine: str, container: Container, root: str) -> list[str]:
    """Return software of the distribution, of Python and of Node that the image lacks, and that nobody installs again.

    What it needs came with it, and is left out: pip marks what it was asked for, and apt what it was not asked for.
    """
    changes = run([engine, "diff", container.name]).out.split("\n")
    packages = [match[1] for line in changes if (match := _PACKAGE.fullmatch(line))]
    others = [match[1] for line in changes for pattern in _ADDED if (match := pattern.fullmatch(line))]
    if packages:
        # The start of the container installs those of the file again.
        again = {*settings(f"{root}/current").get("PACKAGES", "").split(), *_needed_by_others(engine, container.name)}
        packages = [each for each in packages if each not in again]
    return [*packages, *others]


def _needed_by_others(engine: str, container: str) -> list[str]:
    """Return the packages that came with others. They are read from outside, because the container may be stopped."""
    try:
        with tarfile.open(fileobj=io.BytesIO(_copied(engine, container))) as tar:
            member = tar.next()
            file = tar.extractfile(member) if member and member.isfile() else None
            states = file.read(_MOST).decode(errors="replace") if file else ""
    except (OSError, tarfile.TarError):
        return []
    found, package = [], ""
    for line in states.split("\n"):
        name, _, value = line.partition(": ")
        package = value if name == "Package" else package
        if line == "Auto-Installed: 1":
            found.append(package)
    return found


def _copied(engine: str, container: str) -> bytes:
    """Return the beginning of a tar of the file. The agent may have written it: it may be of any size."""
    import select
    import subprocess

    words, data, end = [engine, "cp", f"{container}:{_APT_STATES}", "-"], b"", time.monotonic() + _COPY_SECONDS
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()) as copying:
        assert copying.stdout is not None  # noqa: S101
        while len(data) < _MOST and select.select([copying.stdout], [], [], max(end - time.monotonic(), 0))[0]:
            block = os.read(copying.stdout.fileno(), 1 << 16)
            if not block:
                break
            data += block
        copying.kill()
    return data
