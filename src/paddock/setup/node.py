"""Questions about a Proxmox node. The node itself answers most of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from paddock.base import clock
from paddock.base.errors import BadInput, PaddockError
from paddock.base.frozen import frozen
from paddock.base.secret import Secret
from paddock.base.text import one_line
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.proxmox.access import roles
from paddock.places.proxmox.api import tls
from paddock.places.proxmox.api.client import Client
from paddock.places.proxmox.node import network
from paddock.places.proxmox.node.survey import NodeOffer, Storage, connect, survey, who
from paddock.places.proxmox.template import cloning
from paddock.setup import keys
from paddock.setup.answers import Base, OnNode, Sizes
from paddock.setup.keys import SshKey, Vault, choose_key
from paddock.setup.questions import Choice, Conversation, Question, Stopped

TOKEN_ID: Final = "paddock@pve!agents"  # noqa: S105  its name, not its secret
_ENTRY: Final = "PVE_TOKEN"
_GIB: Final = 1 << 30
_PET_DISK: Final = 2  # gibibytes, the default of the file
_SMALL: Final = Sizes(disk=8, state=4)

URL: Final = Question("--url", "Address of the node", "Address of the Proxmox node, like 192.168.1.10")
FINGERPRINT: Final = Question("--fingerprint", "Fingerprint of the certificate", "Is this your node? (yes or no)")
TOKEN: Final = Question("--token-file", "Token", "The token's value (not shown)", secret=True)
TOKEN_VARIABLE: Final = Question("--token-env", "Token", "Environment variable with the token")
_CONFIRMED: Final = ("y", "yes")


@frozen
class _Address:
    url: str
    certificate: tls.Presented


@frozen
class Access:
    """How a node is reached: its URL, the pinned certificate, the token, and the token's source in the file."""

    url: str
    fingerprint: str | None
    token: Secret
    source: str


def ask_node(talk: Conversation, secrets: Vault, token_id: str, *, docker: bool) -> tuple[OnNode, SshKey]:
    """Ask for a node, and return it as the file describes it."""
    found = talk.ask(URL, _reached)
    fingerprint = _pinned(talk, found)
    token, source = _token(talk, secrets, found.url, fingerprint, token_id)
    return choose_on(talk, Access(found.url, fingerprint, token, source), docker=docker)


def choose_on(talk: Conversation, access: Access, *, docker: bool = False) -> tuple[OnNode, SshKey]:
    """Read the offers of the node, and ask the person to choose."""
    with closing(connect(access.url, access.token, access.fingerprint)) as client:
        talk.tell("The node accepts the token. Asking what it offers …")
        offers = survey(client)
        node = _chosen_node(talk, offers.nodes)
        disk, sizes = _storage(talk, node)
        place = OnNode(
            *(access.url, access.fingerprint, access.source, node.name, disk.name, _bridge(talk, node)),
            base=_base(talk, node),
            docker=docker,
            sizes=sizes,
            pet=offers.next_free,
            templates=cloning.has_templates(disk.type),
        )
        _wait_for_access(talk, client, access.token.reveal().partition("=")[0], place)
    key = choose_key(talk)
    return replace(place, ssh_key=key.path), key


def address_of(answer: str) -> str:
    """Return the URL of a node's API from a typed host name, address or URL."""
    text = answer.strip().rstrip("/")
    text = text if "://" in text else f"https://{text}"
    parts = urlsplit(text)
    try:
        port = parts.port or 8006
    except ValueError:
        raise BadInput(f"{one_line(answer)} has no valid port", hint="the port of the API is usually 8006") from None
    if parts.scheme != "https" or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise BadInput(
            f"{one_line(answer)} is not the address of a node", hint="write it like https://192.168.1.10:8006"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"https://{host}:{port}"


def _reached(answer: str) -> _Address:
    url = address_of(answer)
    return _Address(url, tls.presented(url))


def _pinned(talk: Conversation, found: _Address) -> str | None:
    """Return the fingerprint that a person has confirmed; None if the system trusts the certificate."""
    shown = found.certificate
    if FINGERPRINT.flag in talk.given:
        return talk.ask(FINGERPRINT, lambda answer: _same(answer, found))
    if shown.trusted:
        talk.say(f"{found.url} answers, with a certificate that this computer trusts.")
        return None
    talk.say(
        f"{found.url} answers. Compare the SHA-256 fingerprint of its certificate with the one that the node shows:"
    )
    pairs = shown.fingerprint.split(":")
    talk.tell(f"  {':'.join(pairs[:16])}:")
    talk.tell(f"  {':'.join(pairs[16:])}")
    talk.say("In Proxmox it is at the node, under System > Certificates; in its shell: pvenode cert info")
    return talk.ask(FINGERPRINT, lambda answer: _confirmed(answer, shown.fingerprint))


def _confirmed(answer: str, fingerprint: str) -> str:
    if answer.lower() in _CONFIRMED:
        return fingerprint
    if answer.replace(":", "").upper() == fingerprint.replace(":", ""):
        return fingerprint
    if answer.lower() in ("n", "no"):
        raise Stopped("the certificate was not confirmed, so Paddock sent no token to the node; nothing was written")
    raise BadInput("type yes if the node shows the same fingerprint, else no")


def _same(answer: str, found: _Address) -> str:
    given = answer.replace(":", "").upper()
    if given != found.certificate.fingerprint.replace(":", ""):
        raise BadInput(
            f"{found.url} has another certificate: its SHA-256 fingerprint is {found.certificate.fingerprint}",
            hint="compare it with the output of `pvenode cert info` on the node",
        )
    return found.certificate.fingerprint


def _token(talk: Conversation, secrets: Vault, url: str, fingerprint: str | None, token_id: str) -> tuple[Secret, str]:
    """Return the API token, and its source in the words of the file."""

    def accepted(text: str) -> Secret:
        return _accepted(url, fingerprint, roles.token_from(token_id, text))

    if TOKEN_VARIABLE.flag in talk.given:
        token = talk.ask(TOKEN_VARIABLE, lambda name: _accepted(url, fingerprint, keys.from_environment(name)))
        return token, f"{{env: {talk.given[TOKEN_VARIABLE.flag]}}}"
    if TOKEN.flag in talk.given:
        token = talk.ask(TOKEN, lambda path: accepted(keys.from_file(path).reveal()))
    else:
        _show_lines(talk, "Paste these lines into the node's shell, as root:", roles.user_lines(token_id))
        talk.say(
            "They create a user, a token, two pools and roles for them; it is safe to paste them twice. One line prints"
            " the token's value in a table. Copy the value."
        )
        token = talk.ask(TOKEN, accepted)
    return token, secrets.keep(_ENTRY, token)


def _accepted(url: str, fingerprint: str | None, token: Secret) -> Secret:
    """Return the token if the node accepts it and it has the privileges that the lines grant."""
    with closing(connect(url, token, fingerprint)) as client:
        standing = who(client)
    if not standing.accepted:
        raise BadInput("the node does not accept this token", hint="copy its value again, from the output in the shell")
    lacks = [*standing.blind, *standing.lacks]
    if lacks:
        more = f"; and {len(lacks) - 3} more" if len(lacks) > 3 else ""
        raise BadInput(
            f"the token lacks privileges: {'; '.join(lacks[:3])}{more}",
            hint="paste all lines into the node's shell, then the value again",
        )
    return token


def _show_lines(talk: Conversation, head: str, lines: Sequence[str]) -> None:
    talk.tell("")
    talk.tell(head)
    talk.tell("")
    for line in lines:
        talk.tell(line)
    talk.tell("")


def _chosen_node(talk: Conversation, offers: Sequence[NodeOffer]) -> NodeOffer:
    nodes = {node.name: node for node in offers}
    if not nodes:
        raise PaddockError("no node of the cluster answers", hint="start the node, and run the command again")
    choices = [Choice(name, f"Proxmox VE {one_line(node.version, 40)}") for name, node in nodes.items()]
    return talk.choose(Question("--node", "Node", "Which node?", choices[0].value, choices), nodes.__getitem__)


def _storage(talk: Conversation, node: NodeOffer) -> tuple[Storage, Sizes]:
    found = {each.name: each for each in node.disks}
    if not found:
        raise PaddockError(
            f"{node.name} has no storage for root disks that the token may see",
            hint="in Proxmox, a storage needs the content `rootdir`; then run the command again",
        )
    choices = [Choice(each.name, _described(each)) for each in found.values()]
    first = next((each.name for each in node.disks if _fits(each, _SMALL)), node.disks[0].name)
    question = Question("--storage", "Storage", "Storage for the machines and the agents' memory", first, choices)
    chosen, sizes = talk.choose(question, lambda name: (found[name], sizes_on(found[name])))
    if slow := cloning.cost(chosen.type):
        talk.say(f"{chosen.name} ({chosen.type}) has {slow}. That takes longer and more space.")
    return chosen, sizes


def _described(storage: Storage) -> str:
    return "; ".join(filter(None, (f"{storage.type}, {storage.free // _GIB}G free", cloning.cost(storage.type))))


def sizes_on(storage: Storage) -> Sizes:
    """Return sizes for which the storage has room."""
    for sizes in (Sizes(), _SMALL):
        if _fits(storage, sizes):
            return sizes
    needed = _SMALL.disk + _SMALL.state + _PET_DISK
    raise BadInput(
        f"storage {storage.name} is too full: {storage.free // _GIB}G are free, and an agent needs {needed}G",
        hint="choose another storage, or free some space",
    )


def _fits(storage: Storage, sizes: Sizes) -> bool:
    return storage.free >= (sizes.disk + sizes.state + _PET_DISK) * _GIB


def _bridge(talk: Conversation, node: NodeOffer) -> str:
    if not node.bridges:
        raise PaddockError(
            f"{node.name} has no bridge that the token may see", hint="paste root's lines again, then run the command"
        )
    choices = [
        Choice(each.name, one_line(" ".join(filter(None, (each.address, each.comment))), 60)) for each in node.bridges
    ]
    return talk.choose(Question("--bridge", "Bridge", "Bridge for the machines", choices[0].value, choices), str)


def _base(talk: Conversation, node: NodeOffer) -> Base:
    found: dict[str, Base] = {}
    choices: list[Choice] = []
    for archive in node.archives:
        found[archive.volid] = Base(archive.volid)
        choices.append(Choice(archive.volid, f"{archive.system}, on the node" if archive.system else "on the node"))
    for download in node.downloads if node.keepers else ():
        volume = f"{node.keepers[0].name}:vztmpl/{download.file}"
        if volume not in found:
            found[volume] = Base(volume, download.url, download.sha512)
            choices.append(Choice(volume, f"{download.system}, to download"))
    if not found:
        raise PaddockError(
            f"{node.name} has no base archive, and offers none to download",
            hint="in the node's shell: pveam update && pveam download local debian-12-standard_12.12-1_amd64.tar.zst",
        )
    known = next((choice.value for choice in choices if "," in choice.about), choices[0].value)
    return talk.choose(Question("--base", "System", "System of the machines", known, choices), found.__getitem__)


def _wait_for_access(talk: Conversation, client: Client, token_id: str, place: OnNode) -> None:
    """Wait until the token may use the choices. Without a terminal, `doctor` prints the lines at the end."""
    spec = _spec(place)
    zones = network.zones(client)
    lines = roles.choice_lines(token_id, spec, roles.held_by(client), zones)
    if not lines or talk.terminal is None:
        return
    _show_lines(talk, "Paste these lines there too: they let the token use your choices.", lines)
    talk.tell("Waiting until they have run …")
    while roles.choice_lines(token_id, spec, roles.held_by(client), zones):
        clock.sleep(1)
    talk.tell("The token has every privilege that it needs.")


def _spec(place: OnNode) -> ProxmoxSpec:
    base = place.base
    described: object = base.volume
    if base.url:
        described = {"url": base.url, "sha512": base.sha512, "storage": base.volume.partition(":")[0]}
    return ProxmoxSpec.model_validate(
        {
            **{"url": place.url, "node": place.node, "token": {"env": "PVE_TOKEN"}, "storage": place.storage},
            **{"base": described, "bridge": place.bridge, "ssh": {"key": place.ssh_key}},
        }
    )
