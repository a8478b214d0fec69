"""The processes and files of Hermes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from shlex import quote
from typing import Any, Final

from paddock.file.models.agent import Restart
from paddock.kinds.endpoints import named_in
from paddock.kinds.files import merged
from paddock.kinds.hermes import connectors, managed, model_server, settings, versions
from paddock.kinds.hermes.documents import MEMORIES, SOUL, places
from paddock.kinds.hermes.mcp import COMMANDS, wanted_programs
from paddock.kinds.hermes.spec import API_KEY, HOME, HermesSpec, Managed
from paddock.kinds.workload import (
    File,
    ImageContract,
    Keep,
    Paths,
    Process,
    Program,
    SecretFile,
    StateFile,
    Workload,
    beyond_home,
    working_directory,
)


def shims(agent: HermesSpec, tree: str) -> list[File]:
    """Return wrappers on the agent's PATH: node has to be there, because the packages of npm start it by its name."""
    return [shim(command, tree) for name in wanted_programs(agent) for command in COMMANDS[name]]


def shim(name: str, tree: str) -> File:
    """Return a wrapper for one program of the code tree; the tree's other programs are not on the agent's PATH."""
    return File(f"bin/{name}", f'#!/bin/sh\nexec {quote(f"{tree}/bin/{name}")} "$@"\n', executable=True)


def document_files(agent: HermesSpec) -> tuple[StateFile, ...]:
    """Return the documents as files of the state, at the places where Hermes reads them.

    The file alone decides who the agent is: SOUL.md is locked. USER.md and MEMORY.md are the agent's memory: they are
    written once, and never again. All others are written with each configuration.
    """
    return tuple(StateFile(path, text or "", _keep(path)) for path, text in places(agent))


def _keep(path: str) -> Keep:
    if path == SOUL:
        return Keep.LOCKED
    return Keep.SEEDED if PurePosixPath(path).parent == PurePosixPath(MEMORIES) else Keep.PLANTED


_DRAIN_SECONDS: Final = 60  # how long a stop waits for an unfinished answer; Hermes' default is not to wait

# Settings of every agent. Lazy installs and tirith would download code at run time. Hermes' own respawn limit would
# conflict with the supervisor's.
_ALWAYS: Final[dict[str, Any]] = {
    "security": {"allow_lazy_installs": False, "tirith_enabled": False},
    "gateway": {"respawn_storm": {"max_starts": 0}},
    "agent": {"restart_drain_timeout": _DRAIN_SECONDS},
}

_CHROMIUM: Final = {"AGENT_BROWSER_EXECUTABLE_PATH": "/usr/bin/chromium"}


def workload(agent: HermesSpec, paths: Paths, tree: str, *, browser: str) -> Workload:
    """Return the processes and files of an agent. ``browser`` is the program that controls its browser."""
    directory, traits = working_directory(agent, paths), versions.traits(agent)
    places = {"HERMES_HOME": f"{paths.home}/{HOME}", "HERMES_MANAGED_DIR": f"{paths.etc}/hermes"}
    pinned = {
        "HERMES_DISABLE_LAZY_INSTALLS": "1",
        **({"HERMES_MANAGED": "paddock"} if agent.managed is Managed.STRICT else {}),
        **connectors.environment(agent),
        **agent.environment,
    }
    ours = {"_config_version": traits.config_version, **_ALWAYS}
    given = settings.with_directory(model_server.completed(agent), directory)
    config = merged(merged(ours, given), connectors.settings(agent))
    messaging = Process(
        name="gateway",
        argv=_hermes(paths, tree, "gateway", "run", *traits.run, *agent.service.args),
        environment={**_tools(paths), **traits.variables, **places, **pinned, **(_CHROMIUM if agent.browser else {})},
        directory=paths.home,
        stop_seconds=_drain_seconds(config) + 30,  # the reserve that Hermes recommends
        clean_exits=(0, 1),  # exits with 1 after SIGTERM
        fatal_exits=(78,),  # the configuration is unusable, or the port is in use
        # 75 requests a restart. 1 without a stop is a crash.
        restart_exits=(75, 1) if agent.service.restart is Restart.ON_FAILURE else (75,),
        restart=agent.service.restart,
        restart_seconds=agent.service.restart_delay,
        path=(f"{paths.etc}/bin", f"{paths.home}/.local/bin"),
        writable=beyond_home(agent, paths),
        browser=agent.browser,
    )
    # The package contains the web page; building it again would need npm and the network.
    address = ("--host", agent.listens_on("dashboard"), "--port", str(agent.dashboard.port))
    page = ("dashboard", *address, "--skip-build", "--no-open")
    dashboard = replace(
        messaging,
        name="dashboard",
        argv=_hermes(paths, tree, *page),
        stop_seconds=15,
        clean_exits=(0,),
        fatal_exits=(),
        restart_exits=(),
    )
    return Workload(
        processes=(messaging, dashboard) if agent.dashboard.enabled else (messaging,),
        files=(
            *managed.files(agent.managed, paths, tree, config, pinned),
            *((shim(browser, tree),) if agent.browser else ()),
            *(shims(agent, tree) if tree else ()),
        ),
        # In managed mode Hermes does not create its folders, and fails without them.
        directories=(
            *(f"{HOME}/{name}" for name in ("cron", "logs", "memories", "sessions")),
            ".local/bin",
            agent.working_directory,
        ),
        generated=(API_KEY,),
        state_files=(
            *managed.state_files(agent.managed, HOME, connectors.names(agent)),
            *document_files(agent),
        ),
        secret_files=(
            (SecretFile(f"{HOME}/auth.json", agent.auth.source, agent.auth.overwrite),) if agent.auth else ()
        ),
        programs=(
            (Program("hermes", managed.program(paths, tree), f"{tree}/bin/hermes"),) if agent.cli_on_path else ()
        ),
        image=_official_image(agent, paths, _drain_seconds(config)),
        reaches=(*named_in(config, agent.environment), *connectors.reaches(agent)),
    )


def _official_image(agent: HermesSpec, paths: Paths, drain_seconds: int) -> ImageContract:
    """Return how to run the official image, which starts as root and switches to the account in its variables."""
    state = "/opt/data"
    dashboard = {
        "HERMES_DASHBOARD": "1",
        "HERMES_DASHBOARD_HOST": agent.listens_on("dashboard"),
        "HERMES_DASHBOARD_PORT": str(agent.dashboard.port),
    }
    mounts = (mount.path for mount in agent.mounts if not mount.read_only)
    volumes = (volume.split(":")[1] for volume in agent.container.volumes if not volume.endswith(":ro"))
    return ImageContract(
        # Its own supervisor would restart the process without the runtime's knowledge.
        argv=("gateway", "run", "--no-supervise", *agent.service.args),
        proof=("hermes", "--version"),
        state={HOME: state},
        # The messaging process writes it at each start. By one from before, the image would start a second process.
        forgotten=(f"{state}/gateway_state.json",),
        home=state,
        uid="HERMES_UID",
        gid="HERMES_GID",
        own=("HOME", "HERMES_HOME"),
        environment={
            # Otherwise Hermes writes files in its own home only.
            "HERMES_WRITE_SAFE_ROOT": ":".join((state, paths.home, *mounts, *volumes)),
            # Otherwise its process 1 kills all others 3 seconds after the request to stop.
            "S6_KILL_GRACETIME": str((drain_seconds + 15) * 1000),
            # Otherwise each start rewrites config.yaml, which is locked afterwards, and leaves a copy of it.
            **({"HERMES_SKIP_CONFIG_MIGRATION": "1"} if agent.managed is Managed.STRICT else {}),
            **(dashboard if agent.dashboard.enabled else {}),
        },
    )


def _drain_seconds(config: Mapping[str, Any]) -> int:
    section = config.get("agent")
    seconds = section.get("restart_drain_timeout") if isinstance(section, dict) else None
    return int(seconds) if isinstance(seconds, int | float) else _DRAIN_SECONDS


def _hermes(paths: Paths, tree: str, *words: str) -> Sequence[str]:
    # Started by path: with `-m`, Python would import modules from the current directory, which the agent can write to.
    return (f"{tree}/bin/python", managed.command(paths), *words)


def _tools(paths: Paths) -> dict[str, str]:
    """Return variables so that pip, npm and uv install into the agent's home."""
    return {
        "HOME": paths.home,
        "NPM_CONFIG_PREFIX": f"{paths.home}/.local",
        "PIP_BREAK_SYSTEM_PACKAGES": "1",  # Debian's pip would refuse to install even for one user
    }
