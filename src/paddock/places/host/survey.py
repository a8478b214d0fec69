"""Asking a host, before there is a file: what it has, and which shapes of an agent fit it."""

from __future__ import annotations

import re
import shlex
from typing import Final

from paddock.base.frozen import frozen
from paddock.base.text import one_line
from paddock.channels import Guest, expect, records
from paddock.channels.sent import script

NATIVE: Final = "native"
CONTAINER: Final = "container"
PROCESS: Final = "process"
_PYTHONS: Final = ("3.11", "3.12", "3.13")
_ARCHITECTURES: Final = ("x86_64", "aarch64")
_LIBC: Final = (2, 28)


@frozen
class Engine:
    """An engine that answers to the account."""

    name: str
    version: str
    rootless: bool


@frozen
class HostSurvey:
    """The system, engines and Pythons of a host. All texts are the host's own and safe to print."""

    distribution: str  # its id, like debian; empty if unknown
    title: str  # for people, like Debian GNU/Linux 12 (bookworm)
    version: str
    architecture: str
    system: str  # of the kernel: Linux
    libc: tuple[int, int] | None  # the version of glibc; None if it has another library
    root: bool
    account: str
    sudo: bool  # the account may become root without a password
    systemd: bool  # process 1 is systemd
    nixos: bool
    user_manager: bool  # `systemd --user` answers to the account
    lingers: bool  # services of the account run while nobody is logged in
    engines: tuple[Engine, ...]
    installed_engines: tuple[str, ...]  # also those that do not answer to the account
    pythons: tuple[str, ...]  # those that the code of agents runs with
    other_pythons: tuple[str, ...]  # too old or too new
    installs: bool  # a package manager that Paddock uses
    free: int  # bytes where states are


@frozen
class Fit:
    """A shape on this host, and why it fits or not."""

    shape: str
    why: str
    fits: bool = True
    runtime: str = ""  # for the file; empty if it does not fit
    scope: str = "system"
    install: bool = False  # the engine has to be installed (container.install)


def survey(guest: Guest) -> HostSurvey:
    """Ask a host in one round trip. Nothing is changed there."""
    return parsed(expect(guest, "looking at the host", script("survey.sh"), deadline=60))


def parsed(printed: str) -> HostSurvey:
    """Parse the report of a host. Any text is accepted, and made safe to print."""
    found = records(printed)
    first: dict[str, str] = {}
    for name, value in found:
        first.setdefault(name, value)
    every = {name: [value for each, value in found if each == name] for name, _ in found}
    release = _release(first.get("release", ""))
    pythons = {each for each in every.get("python", ()) if re.fullmatch(r"[0-9]\.[0-9]{1,3}", each)}
    engines = [_engine(name, first.get(name, "")) for name in ("docker", "podman")]
    return HostSurvey(
        distribution=_word(release.get("ID", "")),
        title=one_line(release.get("PRETTY_NAME", ""), 80) or "an unknown system",
        version=_word(release.get("VERSION_ID", "")),
        architecture=_word(first.get("architecture", "")),
        system=_word(first.get("system", "")),
        libc=_libc(first.get("libc", "")),
        root=first.get("uid") == "0",
        account=_word(first.get("account", "")) or "the account",
        sudo=first.get("sudo") == "yes",
        systemd=first.get("init") == "systemd",
        nixos=first.get("nixos") == "yes" or release.get("ID") == "nixos",
        user_manager=first.get("manager") in ("running", "degraded", "starting"),
        lingers=first.get("lingers") == "yes",
        engines=tuple(engine for engine in engines if engine),
        installed_engines=tuple(name for name in ("docker", "podman") if name in every.get("installed", ())),
        pythons=tuple(each for each in _PYTHONS if each in pythons),
        other_pythons=tuple(sorted(each for each in pythons if each not in _PYTHONS)),
        installs=bool(every.get("installs")),
        free=int(first["free"]) << 10 if re.fullmatch(r"[0-9]{1,15}", first.get("free", "")) else 0,
    )


def shapes(host: HostSurvey, *, local: bool = False) -> list[Fit]:
    """Return the shapes for a host, the best first; those that do not fit come last, with the reason.

    ``local`` is for the computer that runs Paddock: there an agent can run without systemd.
    """
    reason = _impossible(host)
    process = []
    if reason is None and not host.systemd:
        reason = "process 1 is not systemd, which supervises agents"
        if local and host.pythons:
            process = [Fit(PROCESS, "children of `paddock run`, in your account, while it is open", runtime=PROCESS)]
    if reason:
        return [*process, *(Fit(shape, reason, fits=False) for shape in (NATIVE, CONTAINER))]
    found = [_native(host), *_containers(host)]
    return sorted(found, key=lambda fit: not fit.fits)


def _impossible(host: HostSurvey) -> str | None:
    """Return why no agent can run on the host."""
    if host.system != "Linux":
        return f"agents need Linux, and this is {host.system or 'something else'}"
    if host.architecture not in _ARCHITECTURES:
        return f"agents need x86_64 or aarch64, and this is {host.architecture or 'something else'}"
    if host.libc is None or host.libc < _LIBC:
        found = f"{host.libc[0]}.{host.libc[1]}" if host.libc else "another C library"
        return f"agents need glibc 2.28 or newer, and this has {found}"
    if host.root and host.nixos:
        return "on NixOS agents run in an account of their own: log in as that account"
    return None


def _native(host: HostSurvey) -> Fit:
    # A package manager that brought another version would bring it again.
    can_install = host.root and host.installs and not host.other_pythons
    if not host.pythons and not can_install:
        has = ", ".join(host.other_pythons) or "none"
        return Fit(NATIVE, f"it needs Python {_PYTHONS[0]} to {_PYTHONS[-1]}, and the host has {has}", fits=False)
    if host.root:
        return Fit(NATIVE, "a systemd service with root's protection, which confines the agent most", runtime="systemd")
    if not host.user_manager:
        return Fit(NATIVE, _no_manager(host), fits=False)
    return Fit(NATIVE, f"a systemd service of {host.account}, without root{_lingering(host)}", True, "systemd", "user")


def _containers(host: HostSurvey) -> list[Fit]:
    """Return how the shape fits with each engine that answers, or with an engine that Paddock would install."""
    if host.root:
        usable = [engine for engine in host.engines if not engine.rootless]
        if usable:
            return [Fit(CONTAINER, f"{_title(each)} is there", runtime=each.name) for each in reversed(usable)]
        if host.installed_engines:
            silent = " and ".join(name.capitalize() for name in host.installed_engines)
            return [Fit(CONTAINER, f"{silent} is installed and does not answer to root: start its service", fits=False)]
        if host.installs:
            why = "there is neither Docker nor Podman; Paddock installs Podman (container.install)"
            return [Fit(CONTAINER, why, runtime="podman", install=True)]
        return [Fit(CONTAINER, "there is neither Docker nor Podman, and Paddock cannot install one here", fits=False)]
    podman = next((engine for engine in host.engines if engine.name == "podman"), None)
    if podman is None:
        docker = "; Docker takes root" if "docker" in host.installed_engines else ""
        return [Fit(CONTAINER, f"without root it needs Podman, which does not answer{docker}", fits=False)]
    if not host.user_manager:
        return [Fit(CONTAINER, _no_manager(host), fits=False)]
    return [Fit(CONTAINER, f"{_title(podman)}, without root{_lingering(host)}", True, "podman", "user")]


def _no_manager(host: HostSurvey) -> str:
    return f"{host.account} is not root, and `systemd --user` does not answer to it"


def _lingering(host: HostSurvey) -> str:
    if host.lingers:
        return ""
    return f"; it ends when {host.account} logs out, unless root runs: loginctl enable-linger {host.account}"


def _title(engine: Engine) -> str:
    return f"{engine.name.capitalize()} {engine.version}"


def _engine(name: str, said: str) -> Engine | None:
    """Return an engine from its answer; None if it did not answer."""
    version, _, rest = said.strip().partition(" ")
    if not re.fullmatch(r"[0-9][0-9A-Za-z.~+-]{0,30}", version):
        return None
    return Engine(name, version, rootless="rootless" in rest or rest.strip() == "true")


def _libc(said: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"glibc ([0-9]{1,3})\.([0-9]{1,3})[0-9.]*", said.strip())
    return (int(found[1]), int(found[2])) if found else None


def _release(text: str) -> dict[str, str]:
    """Return the assignments of /etc/os-release."""
    found = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        try:
            words = shlex.split(value)
        except ValueError:
            continue
        if equals and len(words) == 1:
            found[name.strip()] = words[0]
    return found


def _word(text: str) -> str:
    """Return a short word of the host; empty if it is none."""
    return text if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,40}", text) else ""
