"""The systemd that supervises an agent: of the machine, or of an account without root."""

from __future__ import annotations

import os

from paddock.onboard.agent import settings
from paddock.onboard.files import link_of, names, remove, remove_tree
from paddock.onboard.program.programs import Done, environment, found, run
from paddock.onboard.program.refusal import BUSY, FAILED, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Manager:
    def __init__(self, name: str) -> None:
        self.is_user = name == "user"
        if self.is_user:
            os.environ.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
            home = os.environ["HOME"]
            self.units = f"{home}/.config/systemd/user"
            self.passing_units = f"{os.environ['XDG_RUNTIME_DIR']}/systemd/user"
            self.target = "default.target"
            self.programs = f"{home}/.local/bin"  # a folder of the PATH
        else:
            self.units, self.passing_units = "/etc/systemd/system", "/run/systemd/system"
            self.target, self.programs = "multi-user.target", "/usr/local/bin"

    @property
    def _whose(self) -> list[str]:
        return ["--user"] if self.is_user else []

    def run(self, *words: str) -> Done:
        return run(["systemctl", *self._whose, *words])

    def must(self, *words: str) -> None:
        done = self.run(*words)
        if not done.ok:
            raise Refusal(done.err.strip() or f"systemctl {' '.join(words)} failed with code {done.code}", FAILED)

    def journal(self, unit: str, count: int) -> list[str]:
        """Return the last lines of a unit's log."""
        words = ["journalctl", *self._whose, "-q", "-u", unit, "-o", "cat", "-n", str(count)]
        return run(words).out.split("\n")[:-1]

    def shown(self, units: Sequence[str], *properties: str) -> dict[str, dict[str, str]]:
        """Return properties of units."""
        if not units:
            return {}
        printed = self.run("show", "--property", ",".join(properties), *units).out
        blocks = printed.strip().split("\n\n")
        values = [dict(line.partition("=")[::2] for line in block.split("\n")) for block in blocks]
        found = dict(zip(units, values, strict=False))
        return {unit: {name: found.get(unit, {}).get(name, "") for name in properties} for unit in units}

    def linked(self, root: str) -> list[str]:
        """Return what an agent has in the manager's folder: the links into its own folder.

        Their names do not suffice: the name of one agent can be the beginning of another's.
        """
        return [
            name
            for name in names(self.units)
            if name.startswith("paddock-")
            and name.endswith(".service")
            and link_of(f"{self.units}/{name}") == f"{root}/current/units/{name}"
        ]

    def units_of(self, root: str) -> list[str]:
        """Return the units of an agent. A template of units is none."""
        return [name for name in self.linked(root) if not is_template(name)]

    def stop(self, units: Sequence[str]) -> None:
        """Stop units in one call: systemd stops them in the reverse of the order in which it starts them."""
        if units:
            self.must("stop", *units)

    def stop_container(self, root: str) -> None:
        self.stop([unit for unit in self.units_of(root) if unit.endswith((".container.service", "-container.service"))])

    def drop(self, unit: str) -> None:
        remove(f"{self.units}/{self.target}.wants/{unit}")
        remove_tree(f"{self.units}/{unit}.d")
        remove(f"{self.units}/{unit}")  # last: by this link an interrupted run finds the rest again

    def drop_table(self, agent: str) -> None:
        """Remove the rules for an agent's connections. No process of the agent may run."""
        table = ["table", "inet", f"paddock-{agent}"]
        if not self.is_user and found("nft") and run(["nft", "list", *table]).ok:
            done = run(["nft", "delete", *table])
            if not done.ok:
                raise Refusal(done.err.strip(), FAILED)

    def drop_programs(self, root: str) -> None:
        """Remove the agent's commands for all users of the machine."""
        for name in names(self.programs):
            if link_of(f"{self.programs}/{name}").startswith(f"{root}/current/programs/"):
                remove(f"{self.programs}/{name}")


def is_template(unit: str) -> bool:
    return unit.endswith("@.service")


def halt(root: str, who: str, container: str) -> None:
    """Stop the container of the current bundle, which knows how."""
    if os.path.exists(f"{root}/current/halt"):
        done = run(["sh", f"{root}/current/halt"], env=environment(HOME="/root"))
        if not done.ok:
            raise Refusal(f"the {container} of {who} does not stop", BUSY)


def wanted(bundle: Mapping[str, str]) -> list[str]:
    """Return the units of a bundle, the lease first."""
    return [bundle["LEASE"], *bundle.get("EGRESS", "").split(), *bundle["UNITS"].split()]


def engine_of(root: str) -> str:
    """Return the engine of the current bundle; nothing without a container."""
    return settings(f"{root}/current").get("ENGINE", "")
