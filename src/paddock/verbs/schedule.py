"""Install and remove the timer that backs up the agents of a file, with the systemd of this machine."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from paddock.base import folders, process
from paddock.base.errors import BadInput, PaddockError, Refused
from paddock.base.frozen import frozen
from paddock.base.process import CommandFailed, Result
from paddock.base.text import one_line, visible
from paddock.channels import Guest
from paddock.channels.ssh import SshGuest
from paddock.file.load import Loaded
from paddock.file.secrets.files import own_identity_path
from paddock.places.host.place import guest_of
from paddock.show.reporter import AgentReporter

_TRIAL_SECONDS: Final = 86400.0  # as long as the service may take
_MOST_LINES: Final = 20
_SYSTEM: Final = Path("/etc/systemd/system")


def timer_for(loaded: Loaded, files: Sequence[Path], sets: Sequence[str], at: str) -> Timer:
    """Return the timer of a file, for the account that runs this process."""
    return Timer(
        project=loaded.spec.project,
        # -P: modules in the folder of the file are not imported.
        command=(sys.executable, "-P", "-m", "paddock"),
        files=[str(file.absolute()) for file in files],
        sets=sets,
        folder=str(loaded.folder),
        at=at,
        environment=str(environment_file(loaded.spec.project)),
        system=os.geteuid() == 0,
        beside_agents=any(place.host and place.host.address is None for place in loaded.spec.places.values()),
    )


def environment_file(project: str) -> Path:
    """Return the path of the variables of a schedule."""
    return own_identity_path().parent / f"backup-{project}.env"


def is_installed(project: str, file: Path) -> bool:
    """Return whether root or this account has a timer for a file."""
    return bool(list(_services(project, file)))


def last_failure(project: str, file: Path) -> str | None:
    """Return the failure of the last scheduled run of a file; None if it did not fail, or if it has no timer."""
    for unit, scope in _services(project, file):
        asked = ("Result", "ExecMainStatus", "ExecMainExitTimestamp")
        words = [f"--property={name}" for name in asked]
        try:
            printed = _run(["systemctl", *scope, "show", *words, unit]).out
        except PaddockError:  # no systemctl, or one that hangs: what else `status` shows is as true
            continue
        told = dict(line.split("=", 1) for line in printed.split("\n") if "=" in line)
        if told.get("Result", "success") != "success":
            code, when = (one_line(told.get(name, "-"), 100) for name in asked[1:])
            return f"failed with code {code} on {when}; `{' '.join(('journalctl', *scope, '-u', unit))}` says why"
    return None


def _services(project: str, file: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the units of timers for a file, with the words that systemctl needs for them."""
    unit, first = f"{name_for(project)}.service", header_for(str(file.absolute()))
    for folder, scope in ((_SYSTEM, ()), (_of_account(), ("--user",))):
        with suppress(OSError, ValueError):
            if (folder / unit).read_text().split("\n")[0] == first:
                yield unit, scope


def install(timer: Timer, reporter: AgentReporter) -> str:
    """Try the timer's service, and install both units if it succeeds; return lines about the result."""
    _expect_systemd()
    _expect_calendar(timer.at)
    _expect_own_units(timer)
    _expect_private(Path(timer.environment))
    if _installed(timer) == timer.units() and _waits(timer):
        return f"nothing to do: {timer.name}.timer is installed; {_next(timer)}"
    with reporter.step("schedule.try", "run the scheduled backup once, as the timer will run it"):
        _try(timer)
    with reporter.step("schedule.install", f"install {timer.name}.timer"):
        for name, text in timer.units().items():
            _write(_folder(timer) / name, text)
        _systemctl(timer, "daemon-reload")
        _systemctl(timer, "enable", "--quiet", f"{timer.name}.timer")
        # A timer that runs already would keep its old calendar.
        _systemctl(timer, "restart", f"{timer.name}.timer")
    return "\n".join([f"{timer.name}.timer is installed; {_next(timer)}", *_lingering(timer)])


def remove(timer: Timer, reporter: AgentReporter) -> str:
    """Remove both units; return a line about the result."""
    _expect_own_units(timer)
    if not _installed(timer):
        return f"nothing to do: {timer.name}.timer is not installed"
    with reporter.step("schedule.remove", f"remove {timer.name}.timer"):
        _systemctl(timer, "disable", "--quiet", "--now", f"{timer.name}.timer")
        for name in timer.units():
            (_folder(timer) / name).unlink(missing_ok=True)
        _systemctl(timer, "daemon-reload")
    kept = f"; {timer.environment} is kept" if Path(timer.environment).exists() else ""
    return f"{timer.name}.timer is removed{kept}"


def shown(timer: Timer) -> str:
    """Return the units and their paths, as `install` would write them."""
    return "\n".join(f"{_folder(timer)}/{name}:\n\n{text}" for name, text in timer.units().items())


def _folder(timer: Timer) -> Path:
    return _SYSTEM if timer.system else _of_account()


def _of_account() -> Path:
    return folders.config() / "systemd/user"


def _expect_systemd() -> None:
    if not Path("/run/systemd/system").is_dir():  # as sd_booted(3) finds out
        raise PaddockError(
            "systemd does not run on this machine, and a schedule needs it",
            hint="let another timer, such as cron, run `paddock schedule run`",
        )


def _expect_calendar(at: str) -> None:
    result = _run(["systemd-analyze", "calendar", at])
    if not result.ok:
        said = one_line(result.err.strip().split("\n")[0], 200)
        raise BadInput(f"--at: {said}", hint="write it as systemd does: daily, weekly, 03:30, or Mon *-*-* 03:30")


def _expect_own_units(timer: Timer) -> None:
    for name, text in _installed(timer).items():
        first = text.split("\n")[0]
        if first != timer.header:
            raise Refused(
                f"{_folder(timer) / name} belongs to something else: its first line is {one_line(first, 200)!r}",
                hint="remove it there, or give the two files different projects",
            )


def _expect_private(path: Path) -> None:
    if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise BadInput(f"{path} can be read by other accounts", hint=f"chmod 600 {shlex.quote(str(path))}")


def _installed(timer: Timer) -> dict[str, str]:
    """Return the units that exist, by name."""
    paths = {name: _folder(timer) / name for name in timer.units()}
    return {name: path.read_text(errors="replace") for name, path in paths.items() if path.exists()}


def _waits(timer: Timer) -> bool:
    """Whether the timer is active now and will be after the next boot."""
    unit = f"{timer.name}.timer"
    return all(_run(["systemctl", *_scope(timer), "--quiet", word, unit]).ok for word in ("is-enabled", "is-active"))


def _try(timer: Timer) -> None:
    state = _property(timer, timer.trial_name, "ActiveState")
    if state not in ("inactive", "failed"):
        raise PaddockError(
            f"the trial of an earlier `paddock schedule` is {state}",
            hint=f"wait until it has ended, or `systemctl {' '.join((*_scope(timer), 'stop', timer.trial_name))}`",
        )
    with tempfile.TemporaryDirectory(prefix="paddock-") as folder:  # of mode 0700
        output = Path(folder) / "output"
        try:
            result = _run(timer.trial(str(output)), deadline=_TRIAL_SECONDS)
        except BaseException:  # also Ctrl-C; systemd would run it to its end
            _run(["systemctl", *_scope(timer), "stop", timer.trial_name])
            raise
        printed = output.read_text(errors="replace").strip() if output.exists() else ""
    if not result.ok and not printed:
        raise CommandFailed("systemd-run", result)
    if not result.ok:
        raise PaddockError(
            f"the backup does not work under the timer, so the timer was not installed:\n{_words(printed)}",
            hint="a timer has neither your variables nor your ssh-agent; give it keys without a passphrase,\n"
            f"and write the variables as NAME=value lines into {timer.environment} (chmod 600)",
        )


def _words(printed: str) -> str:
    """Return the error that Paddock printed under the timer, or the last lines if it printed none."""
    lines = printed.split("\n")
    errors = [at for at, line in enumerate(lines) if line.startswith("error: ")]
    told = lines[errors[-1] :] if errors else lines
    return "\n".join(one_line(line.removeprefix("error: ").strip(), 500) for line in told[-_MOST_LINES:])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text)
    partial.chmod(0o644)
    partial.replace(path)


def _next(timer: Timer) -> str:
    when = _property(timer, f"{timer.name}.timer", "NextElapseUSecRealtime")
    return f"the next backup is on {when}" if re.search(r"\d", when) else "it runs now"


def _property(timer: Timer, unit: str, name: str) -> str:
    result = _run(["systemctl", *_scope(timer), "show", f"--property={name}", "--value", unit])
    return one_line(result.out.strip(), 100)


def _lingering(timer: Timer) -> Sequence[str]:
    """Return a line if the timer only runs while its account is logged in."""
    if timer.system:
        return ()
    result = _run(["loginctl", "show-user", str(os.geteuid()), "--property=Linger", "--value"])
    if result.out.strip() == "yes":
        return ()
    return ("it runs only while you are logged in; `loginctl enable-linger` lets it run always",)


def _scope(timer: Timer) -> Sequence[str]:
    return () if timer.system else ("--user",)


def _systemctl(timer: Timer, *words: str) -> None:
    result = _run(["systemctl", *_scope(timer), *words])
    if not result.ok:
        raise CommandFailed(f"systemctl {words[0]}", result)


def _run(argv: Sequence[str], deadline: float = 60.0) -> Result:
    # ssh does not always set it, and without it an account's systemd is not found.
    runtime = {"XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"} if os.geteuid() else {}
    return process.run(argv, deadline=deadline, env={**runtime, **os.environ})


# Of root's service, which reads the file and its keys, talks to other machines, and writes backups to any folder. The
# systemd of an account has most of this only with no new privileges, with which an engine without root does not start.
_CONFINEMENT: Final = (
    "CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER",
    "LockPersonality=yes",
    "NoNewPrivileges=yes",
    "PrivateDevices=yes",
    "PrivateMounts=yes",
    "PrivateTmp=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectSystem=full",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallErrorNumber=EPERM",
)

# systemd would replace $ and %, and a line break would begin another setting.
_PLAIN: Final = re.compile(r"[^$%\"'\\\x00-\x1f\x7f]+")


def name_for(project: str) -> str:
    """Return the name of both units of a project, without the suffix."""
    return f"paddock-backup-{project}"


def header_for(file: str) -> str:
    """Return the first line of the units for a file. It tells which file they are for."""
    return f"# Written by `paddock schedule` for {file}"


@frozen
class Timer:
    """A timer that backs up the agents of a file, as one service unit and one timer unit."""

    project: str
    command: Sequence[str]  # Paddock itself
    files: Sequence[str]  # absolute paths
    sets: Sequence[str]
    folder: str  # of the file
    at: str  # when, as systemd writes it
    environment: str  # the file with the variables of the service
    system: bool  # of the whole machine, run by root; otherwise of an account
    beside_agents: bool = False  # agents of the file are on this machine, and root's programs for them need its rights

    def __post_init__(self) -> None:
        for word in (*self.argv, self.folder, self.at, self.environment):
            if not _PLAIN.fullmatch(word):
                raise BadInput(f"{word!r} cannot be part of a schedule: systemd would change $, %, quotes and \\")

    @property
    def name(self) -> str:
        """The name of both units, without the suffix."""
        return name_for(self.project)

    @property
    def trial_name(self) -> str:
        """The name of the unit of a trial."""
        return f"{self.name}-trial.service"

    @property
    def argv(self) -> list[str]:
        """The command of the service."""
        words = (word for file in self.files for word in ("--file", file))
        sets = (word for each in self.sets for word in ("--set", each))
        return [*self.command, "schedule", "run", *words, *sets]

    @property
    def header(self) -> str:
        """The first line of both units. It tells which file they are for."""
        return header_for(self.files[0])

    def units(self) -> dict[str, str]:
        """Return the texts of the units by name."""
        return {f"{self.name}.service": self._service(), f"{self.name}.timer": self._timer()}

    def trial(self, output: str) -> list[str]:
        """Return the command that runs the service once with the settings of its unit, and its output in a file.

        It waits until a service of this type has ended. To wait with --pipe needs a D-Bus of the account, which may not
        be installed.
        """
        scope = [] if self.system else ["--user"]
        properties = [f"--property={line}" for line in (*self._settings(), f"StandardOutput=file:{output}")]
        options = ["--collect", "--quiet", f"--unit={self.trial_name}", *properties]
        return ["systemd-run", *scope, *options, "--", *self.argv]

    def _settings(self) -> Iterator[str]:
        """Yield the settings of the service. The unit and the trial share them, so that the trial proves the unit."""
        yield "Type=oneshot"
        if self.system:
            yield "User=root"  # with a user, systemd sets HOME
        yield f"WorkingDirectory={self.folder}"
        yield f"EnvironmentFile=-{self.environment}"
        yield "UMask=0077"
        yield "Nice=10"
        yield "TimeoutStartSec=1d"
        if self.system and not self.beside_agents:
            yield from _CONFINEMENT

    def _service(self) -> str:
        online = ["Wants=network-online.target", "After=network-online.target"] if self.system else []
        lines = [
            self.header,
            "[Unit]",
            f"Description=Back up the agents of project {self.project}",
            *online,
            "",
            "[Service]",
            *self._settings(),
            f"ExecStart={' '.join(_quoted(word) for word in self.argv)}",
        ]
        return "\n".join(lines) + "\n"

    def _timer(self) -> str:
        lines = [
            self.header,
            "[Unit]",
            f"Description=Back up the agents of project {self.project}, {self.at}",
            "",
            "[Timer]",
            f"OnCalendar={self.at}",
            "Persistent=true",
            "RandomizedDelaySec=10m",
            "",
            "[Install]",
            "WantedBy=timers.target",
        ]
        return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    return f'"{word}"' if re.search(r"[^\w./:=@,+-]", word) else word


_DESTINATION: Final = re.compile(r"([a-z_][a-z0-9_.-]*)@([A-Za-z0-9:][A-Za-z0-9.:-]*)")
_NO_PADDOCK, _NO_FILE = 41, 42
# Programs that an account installs for itself are often missing from the PATH that ssh gives.
_PATH: Final = 'PATH="$HOME/.local/bin:$PATH"'
_EXPECT: Final = f"""{_PATH}
command -v paddock >/dev/null || exit {_NO_PADDOCK}
for file; do [ -r "$file" ] || exit {_NO_FILE}; done
"""
_RUN: Final = f'{_PATH}; cd "$1" && shift && exec paddock "$@"'


def host_of(name: str, loaded: Loaded) -> Guest:
    """Return a channel to a host: a place of the file, or user@host."""
    place = loaded.spec.places.get(name)
    if place is not None and place.host is not None and place.host.address is not None:
        key = loaded.folder / place.host.key.expanduser() if place.host.key else None
        return guest_of(name, place.host, key)
    if place is not None:
        raise BadInput(f"--on: {name} is not another host", hint="name a place with `host: {address: …}`, or user@host")
    if found := _DESTINATION.fullmatch(name):
        return SshGuest(found[2], found[2], found[1])
    raise BadInput(f"--on: there is no place {name} in {loaded.path.name}", hint="name a host place, or user@host")


def paddock_on(guest: Guest, folder: str, files: Sequence[str], words: Sequence[str]) -> int:
    """Run `paddock` in a folder of a host, print its output, and return its exit code."""
    result = guest.run(["sh", "-c", _EXPECT, "sh", *files])
    if result.code == _NO_PADDOCK:
        raise PaddockError(f"{guest.name} has no command paddock", hint="install Paddock there, for the same account")
    if result.code == _NO_FILE:
        raise PaddockError(
            f"{guest.name} has no {' and '.join(files)}",
            hint="copy the folder of the file there, with its keys; --folder names it if it has another path there",
        )
    argv = ["sh", "-c", _RUN, "sh", folder, *words]
    return guest.stream(argv, lambda line: print(visible(line)), lambda line: print(visible(line), file=sys.stderr))


def paths_there(loaded: Loaded, files: Sequence[Path], folder: str | None) -> tuple[str, list[str]]:
    """Return the folder and the files on a host: the same paths as here, unless the folder has another one there."""
    if folder is None:
        return str(loaded.folder), [str(file.absolute()) for file in files]
    there = PurePosixPath(folder)
    if not there.is_absolute():
        raise BadInput("--folder: write an absolute path on that host")
    try:
        return str(there), [str(there / file.absolute().relative_to(loaded.folder)) for file in files]
    except ValueError:
        raise BadInput(f"--folder: all files must be below {loaded.folder}") from None
