"""The version of the code that last ran on a state, and the record of its last change.

`.paddock/version` is written before a version of the code can touch the state, and `.paddock/upgrade` when the state
was saved for another version. They are in the state, because a machine does not last.
"""

from __future__ import annotations

import os

from paddock.onboard.agent import settings
from paddock.onboard.files import entry, lines, names, remove, text, write
from paddock.onboard.program.frozen import frozen
from paddock.onboard.program.refusal import BUSY, UNSAVED, Refusal
from paddock.onboard.state.top import is_own, is_state, own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.onboard.program.serve import Payload


def version_that_ran(state: str, root: str, distribution: str) -> str:
    """Return the version of the code that last ran on a state.

    An earlier Paddock did not record it: its bundle names the tree of code, or the image that brings the code.
    """
    if os.path.exists(f"{own(state)}/version"):
        return text(f"{own(state)}/version").strip()
    return version_of(settings(f"{root}/current"), distribution)


def version_of(bundle: Mapping[str, str], distribution: str) -> str:
    """Return the version of the code that a bundle names."""
    if not bundle.get("TREE"):
        return f"image {bundle['IMAGE']}" if bundle.get("IMAGE") else ""
    return installed_version(f"{bundle['STORE']}/{bundle['TREE']}", distribution)


def installed_version(tree: str, distribution: str) -> str:
    """Return the version of a package in a tree of code. ``distribution`` is its name with underscores."""
    for python in names(f"{tree}/lib"):
        for name in names(f"{tree}/lib/{python}/site-packages"):
            if name.startswith(f"{distribution}-") and name.endswith(".dist-info"):
                return name.removeprefix(f"{distribution}-").removesuffix(".dist-info")
    return ""


def expect_saved_state(state: str, root: str, version: str, distribution: str) -> None:
    """Let a version of the code touch a state only after the state was saved for it, or if it is that from before it.

    Otherwise the run observes again, and saves the state first: the state was not known when the run was planned,
    because the machine was stopped or did not exist.
    """
    if not version or not is_state(state):
        return
    ran, last = version_that_ran(state, root, distribution), upgrade(state)
    saved = (last.get("from"), last.get("to")) == (ran, version) and last.get("back") != "yes"
    went_back = (last.get("from"), last.get("to")) == (version, ran) and last.get("back") == "yes"
    if ran in ("", version) or (saved and not _started_since_saved(state)) or (went_back and replaced_state(state)):
        record_version(state, version)
        return
    raise Refusal(f"the state is one of version {ran}, and was not saved for {version}", UNSAVED)


def _started_since_saved(state: str) -> bool:
    """Whether the agent, which writes `holder` when it starts, has started since: then it was not the last state."""
    holder, saved = entry(f"{own(state)}/holder"), entry(f"{own(state)}/upgrade")
    return bool(holder and saved and holder.st_mtime_ns > saved.st_mtime_ns)


def record_version(state: str, version: str) -> None:
    """Record the version that is about to run on a state."""
    if version and text(f"{own(state)}/version").strip() != version:
        write(f"{own(state)}/version", f"{version}\n")


def upgrade(state: str) -> dict[str, str]:
    """Return the record of the last change of the version."""
    return dict(line.partition("=")[::2] for line in lines(f"{own(state)}/upgrade"))


def replaced_state(state: str) -> str:
    """Return where the state from before a restoration is. Nothing if none took the state's place, or if it ended.

    It is named `incoming` for a moment: after it was exchanged with the received one, and before it got its name.
    """
    if os.path.isdir(f"{own(state)}/before"):
        return f"{own(state)}/before"
    home = entry(f"{state}/home")
    if home and os.path.isdir(f"{own(state)}/incoming"):
        received = text(f"{own(state)}/incoming.json")
        return f"{own(state)}/incoming" if f'"inode": {home.st_ino},' in received else ""
    return ""


@frozen
class RecordUpgrade:
    """Record in a state how far a change of the version is.

    saved: the state was saved, with facts about its backup. verified: the agent was verified with the version. back: it
    goes back to the version and the state from before. on: it does not go back after all. ended: it went back.
    """

    state: str
    what: str
    facts: dict[str, str] = {}  # noqa: RUF012  no instance changes it

    def perform(self, _: Payload) -> None:
        if not is_own(own(self.state)):
            raise Refusal(f"{own(self.state)} is not a directory that only root can enter")
        record = f"{own(self.state)}/upgrade"
        last = upgrade(self.state)
        ran = text(f"{own(self.state)}/version").strip()
        goes_back = last.get("back") == "yes"
        forward = {key: value for key, value in last.items() if key not in ("back", "why")}
        if self.what == "saved":
            last = dict(self.facts)
        elif self.what == "verified" and last and last.get("to") == ran and not goes_back:
            last["verified"] = "yes"
        elif self.what == "back":
            if not last:
                raise Refusal(f"{record} is missing", BUSY)
            last = {**forward, "back": "yes", "why": self.facts["why"][:500]}
        elif self.what == "on":
            last = forward
        elif self.what == "ended" and last.get("from") == ran and goes_back and not replaced_state(self.state):
            remove(record)  # unless the state from before the rollback is still there
            return
        if last != upgrade(self.state):
            write(record, "".join(f"{key}={value}\n" for key, value in last.items()))
