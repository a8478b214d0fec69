"""Questions about a Linux machine: this one, or one over ssh. The machine says which shapes fit it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from paddock.base import process
from paddock.base.errors import BadInput, PaddockError
from paddock.base.text import one_line
from paddock.channels import Unreachable
from paddock.channels.ssh import scan_host_key
from paddock.file.models.whole import HostSpec
from paddock.places.host.place import guest_of
from paddock.places.host.survey import Fit, HostSurvey, shapes, survey
from paddock.setup.answers import OnHost, Shape
from paddock.setup.keys import found_keys, usable
from paddock.setup.questions import Choice, Conversation, Question, Stopped

HERE: Final = "here"
HOST: Final = Question("--host", "Address of the machine", "Address of the machine: `here`, or user@address", HERE)
HOST_KEY: Final = Question("--host-key", "Key of the machine", "Is this the key of that machine? (yes or no)")
_ADDRESS: Final = re.compile(r"(?:([a-z_][a-z0-9_.-]*)@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?")
_PUBLIC: Final = re.compile(r"(ssh-ed25519|ecdsa-\S+|ssh-rsa) [A-Za-z0-9+/=]{20,}")


def ask_host(talk: Conversation, shape: Shape | None) -> OnHost:
    """Ask for a machine, and for the shape of the agent on it. ``shape`` is the answer of the person so far."""
    place, found = talk.ask(HOST, lambda answer: _reached(talk, answer))
    account = "as root" if found.root else f"as {found.account}, without root"
    talk.say(f"{place.address or 'This machine'} answers: {found.title}, {account}.")
    fit = _chosen(talk, place, shapes(found, local=place.address is None), shape)
    return replace(place, runtime=fit.runtime, rootless=fit.scope == "user", install=fit.install)


def _reached(talk: Conversation, answer: str) -> tuple[OnHost, HostSurvey]:
    place = _parsed(answer)
    key = talk.given.get("--ssh-key")
    if place.address is None:
        if key:
            raise BadInput("--ssh-key is for another machine, and this is `here`")
        return place, survey(guest_of(HERE, _spec(place), None))
    place = _known(talk, place)
    if key:
        return _surveyed(replace(place, key=usable(key)))
    return _logged_in(place)


def _logged_in(place: OnHost) -> tuple[OnHost, HostSurvey]:
    """Survey a machine with the first key that it accepts: ssh's own choice, or a key in the usual files."""
    try:
        return _surveyed(place)
    except Unreachable as error:
        for path in found_keys() if "Permission denied" in error.message else ():
            with suppress(Unreachable):
                return _surveyed(replace(place, key=path))
        raise


def _surveyed(place: OnHost) -> tuple[OnHost, HostSurvey]:
    # With a pinned key, ssh knows the machine by this name, which may have no blank.
    name = "machine" if place.host_key else "the machine"
    return place, survey(guest_of(name, _spec(place), Path(place.key).expanduser() if place.key else None))


def _parsed(answer: str) -> OnHost:
    if answer == HERE:
        return OnHost("systemd")
    found = _ADDRESS.fullmatch(answer.strip())
    if found is None or not 0 < int(found[3] or 22) < 65536:
        raise BadInput(
            f"{one_line(answer)} is not an address", hint="write `here`, root@192.168.1.30 or root@host:2222"
        )
    return OnHost("systemd", address=found[2].strip("[]"), user=found[1] or "root", port=int(found[3] or 22))


def _known(talk: Conversation, place: OnHost) -> OnHost:
    """Return the place with the key that a person has confirmed, if their known_hosts does not have it."""
    if HOST_KEY.flag in talk.given:
        return replace(place, host_key=talk.ask(HOST_KEY, _public_key))
    try:
        guest_of("the machine", _spec(place), None).run(["true"])
    except Unreachable as error:
        if "Permission denied" in error.message:
            return place  # so its key is known
        if "Host key verification failed" not in error.message:
            raise
    else:
        return place
    key = scan_host_key(str(place.address), place.port)
    if key is None:
        raise PaddockError(f"{place.address} has no ssh key of the type ed25519", hint=f"give its key: {HOST_KEY.flag}")
    talk.say(f"{place.address} answers with an ssh key that this computer does not know:")
    talk.tell(f"  {_fingerprint(key)}")
    talk.say("That machine shows it with: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
    if talk.terminal is None:
        raise BadInput(f"the ssh key of {place.address} is not known", hint=f"{HOST_KEY.flag} '{key}' accepts it")
    return replace(place, host_key=talk.ask(HOST_KEY, lambda answer: _confirmed(answer, key)))


def _confirmed(answer: str, key: str) -> str:
    match answer.lower():
        case "y" | "yes":
            return key
        case "n" | "no":
            raise Stopped("the key of the machine was not confirmed; nothing was written")
    raise BadInput("type yes if the machine shows the same key, else no")


def _public_key(text: str) -> str:
    if not _PUBLIC.fullmatch(text.strip()):
        raise BadInput("this is not a public host key", hint="it looks like 'ssh-ed25519 AAAA…'")
    return text.strip()


def _fingerprint(key: str) -> str:
    shown = process.run(["ssh-keygen", "-lf", "-"], stdin=f"{key}\n".encode())
    words = shown.out.split()
    return one_line(words[1], 200) if shown.ok and len(words) > 1 else key


def _chosen(talk: Conversation, place: OnHost, fits: Sequence[Fit], shape: Shape | None) -> Fit:
    possible = {fit.runtime: fit for fit in fits if fit.fits}
    for reason in dict.fromkeys(fit.why for fit in fits if not fit.fits):
        without = " and ".join(dict.fromkeys(fit.shape for fit in fits if fit.why == reason))
        talk.say(f"Not possible there: {without}. The reason: {reason}.")
    wanted = {name: fit for name, fit in possible.items() if shape is None or fit.shape == shape}
    if not wanted:
        what = f"the shape {shape} does not fit" if shape and possible else "no shape fits"
        raise PaddockError(f"{what} {place.address or 'this machine'}", hint="name another machine with --host")
    choices = [Choice(name, fit.why) for name, fit in wanted.items()]
    question = Question("--runtime", "Runtime", "How should the agent run there?", choices[0].value, choices)
    return talk.choose(question, wanted.__getitem__)


def _spec(place: OnHost) -> HostSpec:
    if place.address is None:
        return HostSpec()
    given = {"address": place.address, "user": place.user, "port": place.port, "host_key": place.host_key}
    return HostSpec.model_validate({name: value for name, value in given.items() if value is not None})
