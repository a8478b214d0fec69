"""Commands for a machine that no runtime decides on: packages, templates, mounts, and the state itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.file.agent_id import AgentId
from paddock.file.models.whole import UserSpec
from paddock.kinds.workload import Paths
from paddock.runtimes.contract import former_ids
from paddock.runtimes.sent import script


def install_packages(packages: Sequence[str]) -> Sequence[str]:
    """Return the argv that installs packages of the distribution."""
    return script("code/packages.sh", packages)


def start_service(unit: str) -> Sequence[str]:
    """Return the argv that starts a unit of the machine, now and at every boot."""
    return ["systemctl", "enable", "--now", unit]


def service_log(unit: str) -> Sequence[str]:
    """Return the argv that prints the last lines of a unit's own output, without messages of systemd."""
    return ["journalctl", "--quiet", "--output", "cat", "--lines", "3", f"_SYSTEMD_UNIT={unit}"]


def require_programs(programs: Sequence[str]) -> Sequence[str]:
    """Return the argv that fails unless all programs are on the machine."""
    return script("code/programs_present.sh", programs)


def finish_template() -> Sequence[str]:
    """Return the argv that cleans up a template and prints its manifest."""
    return script("code/template.sh")


def report_inventory(manifest: str = "/opt/paddock/.manifest") -> Sequence[str]:
    """Return the argv that reports the packages of the template that a machine was made from, or of the machine."""
    return script("code/inventory.sh", [manifest])


def report_mounts(uid: int, gid: int, paths: Sequence[str]) -> Sequence[str]:
    """Return the argv that reports whether an agent with these ids can use the directories."""
    return script("agent/mounts.sh", [str(uid), str(gid), *paths])


def report_strays(user: UserSpec, directories: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """Return the argv that reports where files of an agent are on the root disk.

    These are the home of the account, the directories, and all entries with one of the names.
    """
    return script("agent/strays.sh", [user.name, str(user.uid), *directories, "--", *names])


def report_agents(manager: str, paths: Paths, agent: AgentId) -> Sequence[str]:
    """Return the argv that reports all agents beside this agent, with their states."""
    return script("agent/agents.sh", [manager, paths.root, paths.state_link, str(agent)])


def observe_and_look(observe: Sequence[str], paths: Paths, bundle_id: str, program: str) -> Sequence[str]:
    """Return the argv that reports an agent, and runs a program that looks at it if the bundle is the current one."""
    return script("agent/observe_and_look.sh", [paths.etc, bundle_id, program, *observe])


def report_version(paths: Paths, package: str) -> Sequence[str]:
    """Return the argv that reports the version of a Python package in the agent's current code."""
    return script("code/version.sh", [paths.root, paths.code, package.replace("-", "_")])


def claim_state(agent: AgentId, user: UserSpec, paths: Paths, *, mounted: bool) -> Sequence[str]:
    """Return the argv that makes existing files the state of an agent; ``mounted`` requires a mounted volume."""
    ids = [user.name, str(user.uid), str(user.gid or user.uid)]
    folders = [paths.root, paths.code, paths.state_link]
    required = "yes" if user.create or "uid" in user.model_fields_set else ""
    return script("state/claim.sh", [paths.state, str(agent), *ids, "yes" if mounted else "", *folders, required])


def claim_for_restore(agent: AgentId, paths: Paths, *, mounted: bool) -> Sequence[str]:
    """Return the argv that creates the state of an agent, or accepts its own, for a backup to be unpacked into."""
    folders = [paths.root, paths.code, paths.state_link]
    return script("state/claim_for_restore.sh", [paths.state, str(agent), "yes" if mounted else "", *folders])


def close_account(paths: Paths) -> Sequence[str]:
    """Return the argv that closes the account of an agent to logins, if Paddock made it. The agent keeps running."""
    return script("systemd/close.sh", [paths.root])


def record_upgrade(paths: Paths, what: str, *lines: str) -> Sequence[str]:
    """Return the argv that records how far a change of the agent's version is, in its state."""
    return script("code/upgrade.sh", [paths.state, what, *lines])


def hold_lease(paths: Paths) -> Sequence[str]:
    """Return the argv that holds the lease on the state of a stopped agent until its input ends."""
    return script("state/hold.sh", [paths.state])


def delete_state(agent: AgentId, paths: Paths) -> Sequence[str]:
    """Return the argv that deletes the state of an agent."""
    return script("state/forget.sh", [paths.state, paths.state_link, str(agent)])


def remove_left_container(agent: AgentId, formers: Sequence[AgentId], engine: str, paths: Paths) -> Sequence[str]:
    """Return the argv that removes an agent's container and images from an engine that the agent no longer uses."""
    return script("engine/leave.sh", [paths.root, engine, str(agent), former_ids(formers)])
