"""The machine's part of a plan: create it, change it live or with a restart, or leave it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from paddock.base.frozen import frozen
from paddock.file.models.machine import Feature
from paddock.file.models.quantities import Size
from paddock.file.models.whole import ProxmoxSpec
from paddock.places.contract import MachineWant
from paddock.places.proxmox import actions
from paddock.places.proxmox.actions import MOUNT_KEY, TEMPLATE, CannotPlan
from paddock.places.proxmox.node import numbers as occupant
from paddock.places.proxmox.node.notes import Mark, Role
from paddock.places.proxmox.node.observation import LxcContainer, Mount, ProxmoxSeen, options_of
from paddock.places.proxmox.pet import plan as pets
from paddock.places.proxmox.pet.plan import Pet
from paddock.places.proxmox.root import work as root_work
from paddock.places.proxmox.template import cloning
from paddock.places.proxmox.template.plan import DISK, FEATURES
from paddock.plan.actions import Ref
from paddock.plan.step import Risk, Step

_NO_ADDRESS_SECONDS: Final = 300  # a machine has an address within seconds
SHUTDOWN_SECONDS: Final = 120  # longer than the stop timeout of any unit of Paddock
# Proxmox stores these at once; a running container gets them with its next start.
_AFTER_RESTART: Final = frozenset({"features", "nameserver", "searchdomain", "hostname"})
_MAY_BE_UNSET: Final = ("nameserver", "searchdomain")
_UNSET_MEANS: Final = {"onboot": 0, "memory": 512, "swap": 512}  # Proxmox' own defaults
# Configuration keys that have another name in the file.
FILE_KEYS: Final = {"onboot": "start_on_boot", "net0": "net", "nameserver": "dns", "searchdomain": "dns"}
_LIVE: Final = frozenset({"firewall", "type"})  # options of a card that change nothing in the machine
_OF_PROXMOX: Final = re.compile(r"-(standard|default)_[^/]*$")  # names of the archives that Proxmox offers
NET_OPTIONS: Final = frozenset({"name", "bridge", "firewall", "gw", "hwaddr", "ip", "mtu", "tag"})


def find_cattle(want: MachineWant, seen: ProxmoxSeen) -> LxcContainer | None:
    """Return the agent's machine; refuse when there are several."""
    herd = seen.cattle_of(want.id)
    if len(herd) > 1:
        numbers = ", ".join(str(c.vmid) for c in herd)
        raise CannotPlan(
            f"several containers are marked as the machine of {want.agent}: {numbers}",
            "remove the mark from the notes of all but one",
            code="machine.several",
        )
    return herd[0] if herd else None


def check_no_machine(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse while the agent has a machine."""
    cattle = next(iter(seen.machines_of(want.id)), None)
    if cattle is not None:
        raise CannotPlan(f"{cattle.name} still exists", "run `paddock down` first", code="forget.machine-exists")


def check_number(want: MachineWant, cattle: LxcContainer | None, seen: ProxmoxSeen) -> None:
    """Refuse a machine.vmid that is taken, or that is not the number of the existing machine."""
    asked = want.spec.machine.vmid
    if asked is None or (cattle and cattle.vmid == asked):
        return
    if cattle:
        raise CannotPlan(
            f"{cattle.name} is the machine of {want.agent}, but the file says machine.vmid: {asked}",
            f"write {cattle.vmid}, or run `paddock down` before you change it",
            code="machine.other-number",
        )
    if asked in seen.taken:
        there = seen.containers.get(asked)
        lost = there if there in _unmarked_users(want, seen) else None
        hint = pets.machine_mark_hint(want, lost) if lost else occupant.hint(asked, seen)
        reason = f"machine.vmid: {asked} is taken by {occupant.in_words(asked, seen)}"
        raise CannotPlan(reason, hint, code="machine.number-taken")


def _unmarked_users(want: MachineWant, seen: ProxmoxSeen) -> list[LxcContainer]:
    """Return the containers that mount the agent's state and have no readable mark.

    Adopted state does not count: an interrupted adoption continues with `adopt`.
    """
    owners = [c for c in pets.owners_of_state(want, seen) if not pets.holds_adopted_state(want, c)]
    volumes = {state.volume for pet in owners if (state := pets.state_in(want, pet))}
    users = {c.vmid: c for volume in volumes for c in seen.users_of(volume) if c.mark is None}
    return [c for c in users.values() if any(m.path and m.volume in volumes for m in c.mounts)]


def check_no_newer_machine(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse while a machine of a newer Paddock mounts the agent's state."""
    owners = pets.owners_of_state(want, seen)
    volumes = {state.volume for pet in owners if (state := pets.state_in(want, pet))}
    for container in (user for volume in volumes for user in seen.users_of(volume)):
        if container.newer_mark and any(mount.path and mount.volume in volumes for mount in container.mounts):
            raise CannotPlan(
                f"a newer Paddock wrote the mark of {container.name}, which mounts the state of {want.agent}",
                pets.NEWER_HINT,
                code="machine.newer-mark",
            )


def check_unprotected(container: LxcContainer, why: str) -> None:
    """Refuse to change a protected container; Proxmox would refuse too, but only after it was stopped."""
    if container.flag("protection"):
        raise CannotPlan(
            f"{container.name} is protected, and {why}",
            f"to allow it, remove the protection: pct set {container.vmid} --protection 0",
            code="machine.protected",
        )


def check_not_under_ha(container: LxcContainer, why: str) -> None:
    """Refuse to destroy a machine that HA manages: HA would start or move it meanwhile, and Proxmox keeps it."""
    if container.ha is not None:
        number = container.vmid
        raise CannotPlan(
            f"{container.name} is managed by HA, and {why}",
            f"`ha-manager config`, as root on a node, shows its resource and rules; `ha-manager remove ct:{number}`"
            " takes it out: run this command again then, and `ha-manager add ct:NUMBER` for the new machine",
            code="machine.under-ha",
        )


def check_engine(node: ProxmoxSpec, want: MachineWant) -> None:
    """Refuse a new machine in which the agent's engine would be missing: Proxmox's own archives contain none."""
    spec = want.spec
    if spec.runtime.is_engine and not spec.container.install and _OF_PROXMOX.search(node.base.volid):
        raise CannotPlan(
            f"{want.agent} runs in {spec.runtime}, and a machine from {node.base.volid.rpartition('/')[2]} has none",
            "container: {install: true} installs it from the distribution's packages",
            code="engine.not-in-base",
        )


def check_single_writer(
    want: MachineWant, volume: str | Ref, pet: Pet | None, cattle: LxcContainer | None, seen: ProxmoxSeen
) -> None:
    """Refuse while another container could write to the state, now or after the next boot."""
    if isinstance(volume, Ref):
        return
    mine = {pet.vmid if pet else None, cattle.vmid if cattle else None}
    for other in seen.users_of(volume):
        if other.vmid not in mine and (other.running or other.flag("onboot")):
            stop = "two machines must not write to one volume: stop that container, and set its onboot to 0"
            if cattle is None and other.mark and (before := other.mark.agent) and before.project == want.id.project:
                again = f"`paddock rename {before.name} {want.agent}`"
                stop = f"if {before.name} is its former name, run {again} again; otherwise {stop}"
            lost = cattle is None and other.mark is None
            raise CannotPlan(
                f"{other.name} also mounts {volume}",
                f"{stop}; {pets.machine_mark_hint(want, other)}" if lost else stop,
                code="state.second-writer",
            )


def settings(node: ProxmoxSpec, want: MachineWant, mac: str) -> dict[str, str | int]:
    """Return the configuration keys that the file decides, in Proxmox's format. The file may name another MAC."""
    machine = want.spec.machine
    found: dict[str, str | int] = {
        "hostname": machine.hostname or want.agent,
        "tags": ";".join(sorted({"paddock", *machine.tags})),
        "onboot": int(machine.start_on_boot),
        "cores": machine.cores,
        "memory": machine.memory.mib,
        "swap": machine.swap.mib,
        "features": root_work.token_features(machine.features),
        "net0": _network(node, want, mac),
    }
    if machine.dns.servers:
        found["nameserver"] = " ".join(machine.dns.servers)
    if machine.dns.search:
        found["searchdomain"] = machine.dns.search
    return {key: value for key, value in found.items() if value != ""}


def _network(node: ProxmoxSpec, want: MachineWant, mac: str) -> str:
    net = want.spec.machine.net
    words = {
        "name": "eth0",
        "bridge": net.bridge or node.bridge,
        "firewall": "1" if net.firewall else None,
        "gw": net.gateway,
        "hwaddr": net.mac.upper() if net.mac else mac,
        "ip": net.address,
        "mtu": net.mtu,
        "tag": net.vlan,
    }
    return ",".join(f"{name}={value}" for name, value in words.items() if value is not None)


@frozen
class NewMachine:
    """A machine that does not exist yet."""

    node: ProxmoxSpec
    want: MachineWant
    vmid: int
    volume: str | Ref  # of the state
    made_from: str  # for its mark
    mac: str
    attach: Sequence[Step]  # the steps that add volumes

    @property
    def storage(self) -> str:
        return self.want.spec.machine.storage or self.node.storage

    @property
    def params(self) -> dict[str, str | int]:
        """The parameters for Proxmox, however the machine is created."""
        notes = Mark(Role.CATTLE, self.want.id, self.made_from).written_into(self.want.spec.machine.description or "")
        return {"description": notes, **({"pool": self.node.pools.machines} if self.node.pools else {})}


def create_steps(new: NewMachine, key: str) -> Iterator[Step]:
    """Yield the steps to a new machine from the base archive. It accepts the public key for ssh."""
    node, want, vmid = new.node, new.want, new.vmid
    params: dict[str, str | int] = {
        "ostemplate": node.base.volid,
        "unprivileged": 1,
        "rootfs": f"{new.storage}:{want.spec.machine.disk.gib}",
        "ssh-public-keys": key,
        **new.params,
        **settings(node, want, new.mac),
    }
    title = f"create machine {vmid} from {node.base.volid.rpartition('/')[2]}"
    action = actions.CreateCattle(vmid, params, new.volume, want.state_path)
    yield Step("cattle.create", title, "the agent has no machine", action, needs_place_lock=True)
    yield from new.attach
    yield start_step(vmid, "the machine is new")
    yield reach_step(vmid, "the machine is new")


def clone_steps(new: NewMachine, template: LxcContainer | None, seen: ProxmoxSeen) -> Iterator[Step]:
    """Yield the steps to a machine cloned from ``template``; None means the template that the same plan builds."""
    node, want, vmid = new.node, new.want, new.vmid
    clone: dict[str, str | int] = {
        "newid": vmid,
        "hostname": want.spec.machine.hostname or want.agent,
        **new.params,
        **cloning.order(template, node, new.storage, seen),
    }
    root = template.mount("rootfs") if template else None
    found = str(template.config.get("features", "")) if template else FEATURES
    params = settings(node, want, new.mac) | {"features": root_work.with_nesting(found, want.spec.machine.features)}
    number = template.vmid if template else TEMPLATE
    action = actions.CloneCattle(vmid, number, clone, params, new.volume, want.state_path)
    source = f"template {template.vmid}" if template else "the new template"
    yield Step(
        "cattle.clone", f"clone machine {vmid} from {source}", "the agent has no machine", action, needs_place_lock=True
    )
    yield from new.attach
    yield start_step(vmid, "the machine is new")
    size = root.size if root and root.size else DISK
    if want.spec.machine.disk > size:
        yield _grow(vmid, size, want.spec.machine.disk)
    yield reach_step(vmid, "the machine is new", clone=True)


def change_steps(
    node: ProxmoxSpec, want: MachineWant, cattle: LxcContainer, volume: str | Ref, mac: str, *, running: bool
) -> Iterator[Step]:
    """Yield the steps that change the existing machine to match the file, without recreating it."""
    asked = _asked(node, want, cattle, mac)
    other = {key: value for key, value in asked.items() if not _same(key, cattle.config.get(key), value)}
    gone = [
        key for key in _MAY_BE_UNSET if key in cattle.config and key not in asked and _file_decides(want, cattle, key)
    ]
    if other or gone:
        words = [f"{key} {_shown(cattle.config.get(key))} → {value}" for key, value in other.items()]
        words += [f"{key} {cattle.config[key]} → unset" for key in gone]
        title = f"change machine {cattle.vmid}: {', '.join(words)}"
        params = other | ({"delete": ",".join(gone)} if gone else {})
        yield Step("cattle.change", title, "the file says so", actions.Configure(cattle.vmid, params))
    text = (want.spec.machine.description or "").strip()
    if want.spec.machine.description is not None and Mark.text_above(cattle.notes) != text:
        title = f"change the notes of machine {cattle.vmid}"
        yield Step("cattle.describe", title, "the file says so", actions.Describe(cattle.vmid, text))
    yield from _attach_steps(want, cattle, volume)
    binds = {mount.key for mount in cattle.mounts if mount.is_bind}
    waits = sorted(({*other, *gone} & _AFTER_RESTART) | (cattle.pending & (_AFTER_RESTART | binds)))
    if running and waits:
        title = f"restart machine {cattle.vmid}"
        reason = f"{', '.join(waits)} takes effect with a restart"
        yield Step("cattle.restart", title, reason, actions.Reboot(cattle.vmid, SHUTDOWN_SECONDS), Risk.RESTARTS)
        yield reach_again_step(want, cattle, "the machine restarts")


def network_change(node: ProxmoxSpec, want: MachineWant, cattle: LxcContainer, mac: str) -> str | None:
    """Return why the machine has to be stopped while its network card is changed; None if it need not.

    Proxmox replaces the card of a running container, and nobody in it asks for an address then. A run that was killed
    after such a change would leave a machine that looks like its configuration.
    """
    asked, found = _asked(node, want, cattle, mac).get("net0"), str(cattle.config.get("net0", ""))
    if asked is None:
        return None
    old, new = options_of(found), options_of(str(asked))
    names = sorted(name for name in old.keys() | new.keys() if name not in _LIVE and old.get(name) != new.get(name))
    return f"its network changes ({', '.join(names)}), and a running machine would get no address" if names else None


def _asked(node: ProxmoxSpec, want: MachineWant, cattle: LxcContainer, mac: str) -> dict[str, str | int]:
    """Return the configuration that the file asks for; values that others added to the machine are kept."""
    asked = {k: value for k, value in settings(node, want, mac).items() if _file_decides(want, cattle, k)}
    asked["tags"] = ";".join(sorted({"paddock", *want.spec.machine.tags, *cattle.tags}))
    features = root_work.with_nesting(str(cattle.config.get("features", "")), want.spec.machine.features)
    if features and _file_decides(want, cattle, "features"):
        asked["features"] = features
    if "net0" in asked and "net0" in cattle.config:
        found, words = options_of(str(cattle.config["net0"])), options_of(str(asked["net0"]))
        if want.spec.machine.net.mac is None:
            words["hwaddr"] = found.get("hwaddr", words["hwaddr"])  # any MAC will do, as long as it does not change
        words |= {name: value for name, value in found.items() if name not in NET_OPTIONS}
        asked["net0"] = ",".join(f"{name}={value}" for name, value in words.items())
    return asked


def is_adopted(cattle: LxcContainer) -> bool:
    """Whether someone else created the machine: only machines that Paddock created have made-from in their mark."""
    return cattle.mark is not None and cattle.mark.made_from is None


def _file_decides(want: MachineWant, cattle: LxcContainer, key: str) -> bool:
    """Whether the file decides this key. On an adopted machine only keys that are written in the file count."""
    return not is_adopted(cattle) or FILE_KEYS.get(key, key) in want.spec.machine.model_fields_set


def _attach_steps(want: MachineWant, cattle: LxcContainer, volume: str | Ref) -> Iterator[Step]:
    mounted = next((m for m in cattle.mounts if m.volume == volume and m.path), None) or cattle.mount(MOUNT_KEY)
    if mounted is None and not cattle.running:
        params = {MOUNT_KEY: f"{volume},mp={want.state_path}"}
        title = f"attach the state to machine {cattle.vmid}"
        check_unprotected(cattle, "the plan attaches its state")
        yield Step("cattle.attach", title, "the state is detached", actions.Configure(cattle.vmid, params))
    elif mounted is None and MOUNT_KEY in cattle.pending:
        # Proxmox would detach it when the machine stops. Until then the machine has it.
        title = f"keep the state attached to machine {cattle.vmid}"
        reason = "a run that was interrupted, or somebody else, asked to detach it"
        yield Step("cattle.attach", title, reason, actions.Configure(cattle.vmid, {"revert": MOUNT_KEY}))
    elif mounted is None or (mounted.volume, mounted.path) != (volume, want.state_path):
        raise CannotPlan(
            f"{cattle.name} does not have the state volume {volume} at {want.state_path}",
            "run `paddock cycle` to recreate the machine",
            code="machine.state-elsewhere",
        )


def grows(want: MachineWant, cattle: LxcContainer) -> Mount | None:
    """Return the root disk if it is smaller than the file says."""
    root = cattle.mount("rootfs")
    smaller = root and root.size and root.size < want.spec.machine.disk
    return root if smaller and _file_decides(want, cattle, "disk") else None


def power_steps(
    want: MachineWant, cattle: LxcContainer, template: LxcContainer | None, *, stopped: bool
) -> Iterator[Step]:
    """Yield the steps until the machine runs and is reachable; ``stopped``: an earlier step stops it."""
    clone = _has_key_of(template, cattle)
    starts = stopped or not cattle.running
    if starts:
        reason = "the machine was stopped for this change" if stopped else "the machine is stopped"
        yield start_step(cattle.vmid, reason)
    if (root := grows(want, cattle)) and root.size:
        yield _grow(cattle.vmid, root.size, want.spec.machine.disk)
    if starts:
        yield reach_again_step(want, cattle, "the machine starts", clone=clone)
    elif cattle.address is None:
        if cattle.uptime > _NO_ADDRESS_SECONDS:
            title = f"restart machine {cattle.vmid}"
            reason = "it has had no address for minutes: a network card that was replaced gets one with a restart"
            yield Step("cattle.restart", title, reason, actions.Reboot(cattle.vmid, SHUTDOWN_SECONDS), Risk.RESTARTS)
        yield reach_again_step(want, cattle, "the machine has no address yet", clone=clone)
    elif not (cattle.mark and cattle.mark.host_key):
        yield reach_again_step(want, cattle, "its host key is not recorded yet")
    elif clone:
        yield reach_again_step(want, cattle, "the machine still has its template's host key", clone=True)


def _has_key_of(template: LxcContainer | None, cattle: LxcContainer) -> bool:
    """Whether a clone still has its template's host key, or the exchange of the keys was interrupted."""
    keys = cattle.mark.host_keys if cattle.mark else ()
    return len(keys) > 1 or bool(keys and template and template.mark and template.mark.host_key == keys[0])


def root_steps(node: ProxmoxSpec, work: actions.RootWork, cattle: LxcContainer | None) -> Iterator[Step]:
    """Yield the step for the work of root, and the step that reaches the machine again after its restart."""
    flags = [name for name in options_of(work.features) if name != Feature.NESTING]
    given = ", ".join([*(bind.host for bind in work.binds), *flags])
    things = " and ".join([*(["bind mounts"] if work.binds else []), *flags])
    wrong = [bind for bind in work.binds if cattle and cattle.mount(bind.key)]
    differs = root_work.differences(replace(work, binds=tuple(wrong), features=""), cattle) if cattle else []
    reason = "; ".join(differs) or f"Proxmox allows {things} only to root, not to a token"
    title, risk = f"wait until root has added {given} to machine {work.vmid}", Risk.PERSON
    if node.ssh.root:
        title, risk = f"add {given} to machine {work.vmid} as {node.ssh.root}", Risk.RESTARTS
    yield Step("cattle.root", title, reason, work, risk, commands=root_work.chained(root_work.commands(work)))
    yield reach_step(work.vmid, "the machine restarts")


def difference_notes(node: ProxmoxSpec, want: MachineWant, cattle: LxcContainer, made_from: str) -> Iterator[str]:
    """Yield a note for the plan about each difference between machine and file that Paddock does not change."""
    yield from root_work.also_mounted(want, cattle)
    root = cattle.mount("rootfs")
    if root and root.size and root.size > want.spec.machine.disk and _file_decides(want, cattle, "disk"):
        asked = want.spec.machine.disk
        yield f"the root disk of machine {cattle.vmid} has {root.size}, but the file says {asked}: left as it is"
    storage = want.spec.machine.storage or (None if is_adopted(cattle) else node.storage)
    if root and storage and root.storage != storage:
        yield f"the root disk of machine {cattle.vmid} is on {root.storage}; `paddock cycle` recreates it on {storage}"
    if cattle.mark and cattle.mark.made_from not in (None, made_from):  # None: Paddock did not create it
        yield f"machine {cattle.vmid} is not from the current template or base archive; `paddock cycle` recreates it"


def stop_step(cattle: LxcContainer, reason: str, kind: type[actions.Shutdown] = actions.Shutdown) -> Step:
    """Return the step that shuts the machine down, with time to finish a pending answer."""
    action = kind(cattle.vmid, SHUTDOWN_SECONDS)
    return Step("cattle.stop", f"shut machine {cattle.vmid} down", reason, action, Risk.RESTARTS)


def start_step(vmid: int, reason: str) -> Step:
    """Return the step that starts the machine."""
    return Step("cattle.start", f"start machine {vmid}", reason, actions.Start(vmid))


def _grow(vmid: int, size: Size, wanted: Size) -> Step:
    # The machine runs: growing an unmounted ext4 filesystem waits 22 s for its multi-mount protection.
    title = f"grow the root disk of machine {vmid} from {size} to {wanted}"
    return Step("cattle.grow", title, "the file says so", actions.GrowDisk(vmid, str(wanted)))


def reach_step(vmid: int, reason: str, *, clone: bool = False) -> Step:
    """Return the step that waits for the machine's ssh and records its host key."""
    return Step("cattle.reach", f"reach machine {vmid} over ssh", reason, actions.Reach(vmid, clone))


def reach_again_step(want: MachineWant, cattle: LxcContainer, reason: str, *, clone: bool = False) -> Step:
    """Return the step that reaches an existing machine over ssh; the machine may be adopted."""
    if cattle.mark is not None and not is_adopted(cattle):
        return reach_step(cattle.vmid, reason, clone=clone)
    action = actions.ReachAdopted(cattle.vmid, want.spec.machine.host_key)
    return Step("cattle.reach", f"reach machine {cattle.vmid} over ssh", reason, action)


def _same(key: str, found: object, asked: str | int) -> bool:
    if found is None:
        return asked == _UNSET_MEANS.get(key)
    if key == "net0":
        return _without_defaults(str(found)) == _without_defaults(str(asked))
    if key == "features":
        return options_of(str(asked)).items() <= options_of(str(found)).items()
    return str(found) == str(asked)


def _without_defaults(network: str) -> Mapping[str, str]:
    return {name: value for name, value in options_of(network).items() if (name, value) != ("firewall", "0")}


def _shown(value: object) -> str:
    return "unset" if value is None else str(value)


def check_is_down(want: MachineWant, seen: ProxmoxSeen) -> None:
    """Refuse to report an agent as down while a container may use its state: marks can be edited or lost."""
    states = {pet.vmid: state for pet in pets.owners_of_state(want, seen) if (state := pets.state_in(want, pet))}
    if not states and (lost := pets.lost_pet(want, seen)) is not None:
        raise pets.lost_pet_refusal(want, lost)
    check_no_newer_machine(want, seen)
    for owner, state in states.items():
        for user in seen.users_of(state.volume):
            if user.vmid == owner or not any(mount.path and mount.volume == state.volume for mount in user.mounts):
                continue
            whose = (
                f"is marked as the machine of {user.mark.agent.in_words}"
                if user.mark and user.mark.agent
                else "is not marked"
            )
            raise CannotPlan(
                f"{user.name} mounts {state.volume}, the state of {want.agent}, but {whose}",
                pets.machine_mark_hint(want, user),
                code="down.unknown-user",
            )


def down_steps(cattle: LxcContainer, seen: ProxmoxSeen) -> Iterator[Step]:
    """Yield the steps that remove the machine; refuse unless a pet owns every volume but its root disk."""
    owners = {pet.vmid for pet in seen.with_role(Role.PET)}
    check_unprotected(cattle, "the plan destroys it")
    check_not_under_ha(cattle, "the plan destroys it")
    if "parent" in cattle.config:
        raise CannotPlan(
            f"{cattle.name} has snapshots, which also hold the state; destroying the machine would leave them behind",
            "delete its snapshots first",
            code="down.snapshots",
        )
    for mount in cattle.mounts:
        if mount.key == "rootfs" or mount.is_bind:
            continue
        if mount.owner == cattle.vmid:
            raise CannotPlan(
                f"{cattle.name} owns {mount.volume} ({mount.key}), which would be destroyed with it",
                "move that volume to another container first",
                code="down.owns-volume",
            )
        if mount.owner is not None and mount.owner in seen.hidden.members:
            raise CannotPlan(
                f"{cattle.name} has {mount.volume} ({mount.key}), and the token lacks VM.Audit on its owner,"
                f" container {mount.owner}",
                pets.reading_hint(mount.owner),
                code="down.owner-hidden",
            )
        if mount.owner is not None and (where := seen.where(mount.owner)) is not None:
            raise CannotPlan(
                f"{cattle.name} has {mount.volume} ({mount.key}), whose owner, container {mount.owner}, is {where}",
                "the owner of a state and its machine belong on one node: `paddock plan` says how to get there",
                code="down.owner-on-another-node",
            )
        if mount.owner not in owners:
            raise CannotPlan(
                f"{cattle.name} has {mount.volume} ({mount.key}), which no pet owns",
                _owner_hint(mount, seen),
                code="down.volume-without-pet",
            )
    if cattle.running:
        yield stop_step(cattle, "the machine is running")
    # A volume that is detached with the next stop is not in the configuration any more, and unused afterwards.
    if any(mount.key != "rootfs" for mount in cattle.mounts) or MOUNT_KEY in cattle.pending:
        title = f"detach the state from machine {cattle.vmid}"
        yield Step("cattle.detach", title, "the state is kept", actions.Detach(cattle.vmid))
    title = f"destroy machine {cattle.vmid}"
    yield Step(
        "cattle.destroy", title, "the machine owns only its root disk", actions.Destroy(cattle.vmid), Risk.RECREATES
    )


def _owner_hint(mount: Mount, seen: ProxmoxSeen) -> str:
    """Return a hint for a volume whose owner is not a pet: the volume may hold an agent's state."""
    owner = seen.containers.get(mount.owner or 0)
    if owner is None:
        return f"it may hold an agent's state: find container {mount.owner}, which owns it, and let the token see it"
    if owner.newer_mark:
        return f"a newer Paddock wrote the mark of {owner.name}, which owns it: {pets.NEWER_HINT}"
    if owner.mark is None:
        return f"{owner.name} owns it and may be a pet that lost its mark; {pets.pet_mark_hint(owner)}"
    return f"{owner.name} owns it: move it to a pet first, because it may hold an agent's state"
