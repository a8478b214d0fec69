"""Look at one agent, for the facts that `verify` judges."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress

from paddock.onboard.agent import current_bundle
from paddock.onboard.facts.files import text
from paddock.onboard.facts.output import MOST, Program
from paddock.onboard.facts.sockets import agents_own, company, listening, ports
from paddock.onboard.facts.state import lease, state
from paddock.onboard.facts.threads import in_thread
from paddock.onboard.observe import Observe
from paddock.onboard.program.frozen import frozen
from paddock.onboard.remains import left
from paddock.onboard.request import PAUSE, ask
from paddock.onboard.systemd.look import Inspect, inspected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from paddock.onboard.program.serve import Payload

    Json = dict[str, Any]

NO_SUCH_PROGRAM = 127
GIVE_WAY = 5  # seconds; a prompt that takes longer waits for its model rather than for this machine
LOOK_AGAIN = 2.0  # seconds after which the processes of an agent that is not healthy are looked at
CRASHES = 3  # restarts after which a process is not waited for
RECENTLY = 60  # seconds; an earlier restart does not count
PAUSE_OF_ANSWERS = 0.2  # seconds; an agent that answers, but is not healthy yet, has work to do
SECONDS_BESIDE = 20  # of a look beside an observation; the agent decides how long it takes


@frozen
class Look:
    """Look at an agent. ``supervisor`` reports its processes."""

    supervisor: Inspect
    question: dict[str, object]

    def perform(self, _: Payload) -> Json | None:
        with suppress(OSError):  # it has less already
            os.setpriority(os.PRIO_PROCESS, 0, 5)  # the agent has priority
        question: Json = {**self.question, "supervisor": self.supervisor}
        beside = Beside(question["inside"])
        try:
            return facts(question, beside)
        finally:
            beside.kill()  # it may wait for its questions still


@frozen
class ObserveAndLook:
    """Report an agent, and look at it at the same time if it has the wanted bundle. The report needs no facts."""

    observe: Observe
    bundle_id: str
    look: Look

    def perform(self, payload: Payload) -> Json:
        looks = in_thread(self._facts, payload)
        report = self.observe.perform(payload)
        return {"agent": report, "facts": looks(SECONDS_BESIDE)}

    def _facts(self, payload: Payload) -> Json | None:
        agent = self.observe.agent
        return self.look.perform(payload) if current_bundle(agent.root) == self.bundle_id else None


class Beside:
    """The program beside the agent. It loads while the agent starts, and waits for its questions."""

    def __init__(self, question: Json) -> None:
        self.question = question
        self.program = started(question)

    def ask(self, since: float) -> Program | OSError:
        """Send the questions. A program that has ended is started again: the agent's container did not run yet."""
        if isinstance(self.program, Program) and self.program.has_ended:
            self.program = started(self.question)
        if isinstance(self.program, Program):
            asked = [{**each, "since": since} for each in self.question["questions"]]
            self.program.send(json.dumps(asked).encode())
        return self.program

    def kill(self) -> None:
        if isinstance(self.program, Program):
            self.program.kill()


def facts(question: Json, beside: Beside) -> Json | None:
    """Return the facts, with the answers of the program beside the agent. None if it must not be asked."""
    running, dropped = supervised(question["supervisor"])
    if question.get("only_running") and not runs(question["processes"], running):
        return None  # another program that listens on the agent's port must not be asked with its key
    looks = begun(early_looks(question)) if question["all"] else {}
    health = awaited_health(question) if question["health"] else None
    if health and not is_wanted(health, question["health"]["wanted"]):
        return {"health": health}
    asked = beside.ask(next((running[name]["since"] for name in question["processes"] if name in running), 0.0))
    if question["all"] and isinstance(asked, Program):
        asked.spoke.wait(GIVE_WAY)  # until the agent has answered the prompt
        running, dropped = supervised(question["supervisor"])
    looks |= begun(late_looks(question, running, asked))
    about = {"processes": running, "dropped": dropped, "now": time.time(), "uid": os.geteuid(), "health": health}
    return {**about, **{name: found() for name, found in looks.items()}}


def early_looks(question: Json) -> dict[str, Callable[[], Any]]:
    """Return the functions that find facts which do not depend on the agent: they run while it starts."""
    from paddock.onboard.facts.files import code, configuration
    from paddock.onboard.facts.login import login

    return {
        "login": lambda: login(question["account"]),
        "code": lambda: code(question["tree"]),
        "configuration": lambda: configuration(question["etc"], question["files"]),
    }


def late_looks(question: Json, running: dict[str, Json], beside: Program | OSError) -> dict[str, Callable[[], Any]]:
    """Return the functions that find the other facts, by the names of the facts."""
    supervisor: Inspect = question["supervisor"]
    started = [running[name]["pid"] for name in question["processes"] if running.get(name, {}).get("pid")]
    pids, alone = agents_own(started), question["alone"]
    quick: dict[str, Callable[[], Any]] = {
        "inside": lambda: inside(beside),
        "state": lambda: state(question["folders"]),
        "lease": lambda: lease(question["lease_file"], question["holder_file"]),
        "ports": lambda: ports(question["ports"], pids, alone=alone),
        "outside": lambda: outside(question["account"], supervisor.agent.id),
    }
    if not question["all"]:
        return quick
    from paddock.onboard.facts.confinement import isolation, limits
    from paddock.onboard.facts.leaks import leaks

    return {
        **quick,
        "limits": lambda: limits(started),
        "isolation": lambda: {str(pid): isolation(pid) for pid in pids},
        "listening": lambda: listening(pids, alone=alone),
        "memory": memory,
        "company": lambda: company(pids, alone=alone) if question["own_machine"] else [],
        "leaks": lambda: leaks(question["env_files"], question["search"], question["skip"], question["logs"]),
    }


def outside(account: str, agent: str) -> list[str]:
    """Return the processes of the agent's account that are in none of its units, each with its unit."""
    found = left(account) if account else []
    return [f"{each.name} in {each.unit}" for each in found if not each.unit.startswith(f"paddock-{agent}.")]


def begun(looks: dict[str, Callable[[], Any]]) -> dict[str, Callable[[], Json]]:
    """Start each function in a thread of its own. Return functions that wait for what they found."""
    return {name: in_thread(timed, look) for name, look in looks.items()}


def runs(names: list[str], running: dict[str, Json]) -> bool:
    """Whether all of the agent's processes are running."""
    return all(running.get(name, {}).get("state") == "active" for name in names)


def awaited_health(question: Json) -> Json:
    """Return the reply of a healthy agent, or the last one if the agent has failed or the patience has ended."""
    asked = question["health"]
    now = time.monotonic()
    end, look_again = now + asked["patience"], now + LOOK_AGAIN
    while True:
        reply, now = ask(asked), time.monotonic()
        if now >= end or is_wanted(reply, asked["wanted"]):
            return reply
        if now >= look_again:
            running, _ = supervised(question["supervisor"])
            if any(has_ended(running[name], its_own=name in question["processes"]) for name in running):
                return reply
            look_again = now + LOOK_AGAIN
        time.sleep(PAUSE if "refused" in reply else PAUSE_OF_ANSWERS)


def has_ended(process: Json, *, its_own: bool) -> bool:
    """Whether a process has failed, or one of the agent's own ends again and again.

    The process that takes the lease ends while another machine holds it. It is waited for.
    """
    recent = process["state"] != "active" or time.time() - process["since"] < RECENTLY
    return bool(process["state"] == "failed" or (its_own and process["restarts"] >= CRASHES and recent))


def is_wanted(reply: Json, wanted: Json) -> bool:
    """Whether a reply is that of a healthy agent. Another program on its port must not be asked with its key."""
    body = reply["body"] if isinstance(reply.get("body"), dict) else {}
    values = all(body.get(key) == value for key, value in wanted.get("values", []))
    return "refused" not in reply and reply.get("status") == wanted.get("status") and values


def timed(look: Callable[[], Any]) -> Json:
    start = time.monotonic()
    try:
        found: Json = {"found": look()}
    except OSError as error:  # a file or process disappeared, or this account may not read it
        found = {"refused": str(error)}
    return {**found, "seconds": time.monotonic() - start}


def supervised(asked: Inspect) -> tuple[dict[str, Json], list[str]]:
    """Return the agent's processes and the dropped kinds of isolation."""
    found = inspected(asked)
    return found["processes"], found["dropped"]


def memory() -> int:
    """Return the memory of the machine in bytes, as its programs see it."""
    total = re.search(r"^MemTotal: *(\d+) kB$", text("/proc/meminfo"), re.MULTILINE)
    return int(total[1]) << 10 if total else 0


def started(question: Json) -> Program | OSError:
    try:
        return Program([*question["argv"], question["program"], *question["load"]])
    except OSError as error:
        return error


def inside(beside: Program | OSError) -> Json:
    """Return what the program beside the agent printed."""
    if isinstance(beside, OSError):
        raise beside
    done = beside.ended()
    if done.cut:
        return {"refused": f"its output was longer than {MOST >> 20} MiB and was cut off"}
    try:
        return dict(json.loads(done.out))
    except (ValueError, TypeError, RecursionError):  # the program runs as the agent, which can make it print anything
        said = (done.err or done.out).decode(errors="replace").strip()
        return {"missing" if done.code == NO_SUCH_PROGRAM else "refused": f"code {done.code}: {said[-500:]}"}
