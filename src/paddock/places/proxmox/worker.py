"""Performing actions on a node; each action verifies its own result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Final, assert_never

from paddock.base import clock
from paddock.base.clock import Wait
from paddock.base.errors import PaddockError, Refused
from paddock.file.agent_id import AgentId
from paddock.places.contract import Got
from paddock.places.proxmox import actions
from paddock.places.proxmox.actions import CACHE_VOLUME, HOST_KEY, MOUNT_KEY, REACHED_NAME, STATE_VOLUME, TEMPLATE
from paddock.places.proxmox.adopt.perform import Adopter
from paddock.places.proxmox.api import errors
from paddock.places.proxmox.api.client import TaskFailed
from paddock.places.proxmox.api.errors import CONTINUE, AnswerLost, Forbidden, NotRunning, Running
from paddock.places.proxmox.archive.perform import Archiver
from paddock.places.proxmox.machine.reach import HostKeyTrust, Reacher
from paddock.places.proxmox.node.containers import Containers, Run, resolved, with_version
from paddock.places.proxmox.node.notes import Claim, Mark, Role, with_restart_note, without_claim, without_restart_note
from paddock.places.proxmox.node.observation import Mount, options_of
from paddock.places.proxmox.pet.perform_forget import Forgetter
from paddock.places.proxmox.pet.plan import agent_of
from paddock.places.proxmox.rename.perform import Renamer
from paddock.places.proxmox.root.perform import RootWorker
from paddock.places.proxmox.safety.same_container import check_key_free
from paddock.places.proxmox.safety.settle import Contest

_BUILDING: Final = timedelta(minutes=60)  # longer than packages and code may take to be installed
_START_SECONDS: Final = 600
_HA_SECONDS: Final = 60  # HA begins within 10 to 20 seconds after its task has ended
_DISPOSABLE: Final = frozenset({Role.CATTLE, Role.BUILDER, Role.TEMPLATE, Role.READER})


class Worker(Containers):
    """Performs the actions of this place through the API of the node."""

    def __init__(self, run: Run, reacher: Reacher, root_worker: RootWorker) -> None:
        super().__init__(run)
        self._reacher = reacher
        self._root_worker = root_worker
        self._contest = Contest(run)
        self._adopter = Adopter(run)
        self._forgetter = Forgetter(run)
        self._renamer = Renamer(run)
        self._archiver = Archiver(run)

    def perform(self, action: actions.ProxmoxAction, got: Got) -> Got:
        """Perform one action and return the values that later steps refer to."""
        match action:
            case actions.DownloadBase(storage, params):
                self._task("POST", f"/nodes/{self._client.node}/storage/{storage}/download-url", params)
            case actions.CreatePet(vmid, params):
                made = self._create_pet(vmid, params)
                if action.agent_to_note:
                    line = f"agents.{action.agent_to_note}: state: {{pet: {vmid}}}"
                    self._reporter(f"write the pet's number into the file, so that `up` accepts no other pet: {line}")
                return made
            case actions.SettlePet(vmid):
                self._contest.settle_interrupted_pet(vmid)
            case actions.RemovePet(vmid, agent):
                self._contest.remove_pet(vmid, agent)
            case actions.AddVolume(vmid, key, value):
                return {STATE_VOLUME.name: self._add_volume(vmid, key, value)}
            case actions.AddCache(vmid, key, value):
                return {CACHE_VOLUME.name: self._add_volume(vmid, key, value)}
            case actions.AttachCache(vmid, key, volume, mount):
                self._attach(vmid, key, resolved(volume, got), mount)
            case actions.Attach(vmid, key, volume, mount):
                self._adopter.attach(vmid, key, resolved(volume, got), mount)
            case actions.AdoptPet() | actions.Reassign() | actions.AdoptMachine():
                return self._adopter.perform(action)
            case actions.RenamePet() | actions.RenameMachine():
                return self._renamer.perform(action)
            case actions.GrowVolume(vmid, key, size):
                with self._claimed(vmid):
                    self._resize(vmid, key, size)
            case actions.IncludeVolume(vmid, key, backup):
                self._include(vmid, key, backup=backup)
            case actions.CreateCattle():
                return self._create_machine(action, got)
            case actions.CloneCattle():
                return self._clone(action, got)
            case actions.CreateBuilder(vmid, params):
                claimed = self._claim(_BUILDING).written_into(str(params["description"]))
                return self._create(vmid, {**params, "description": claimed})
            case actions.Configure(vmid, params):
                self._configure(vmid, params)
            case actions.Describe(vmid, text):
                container, mark = self._marked(vmid)
                self._put(container, {"description": mark.written_below(text, container.notes)})
            case actions.Release(vmid):
                self._release(vmid)
            case actions.GrowDisk(vmid, size):
                self._resize(vmid, "rootfs", size)
            case actions.Start(vmid):
                self._start(vmid)
            case actions.Reboot(vmid, seconds):
                self.read(vmid)
                with self._saying_why_not(vmid, "restart"):
                    self._task("POST", f"{self._path}/{vmid}/status/reboot", {"timeout": seconds})
            case actions.RootWork():
                self._root_worker.perform(action, self.read)
            case actions.Reach(vmid, clone):
                return self._reach(vmid, clone=clone)
            case actions.ReachAdopted(vmid, host_key):
                return self._reach(vmid, from_file=host_key)
            case actions.Shutdown(vmid, seconds):
                self._shutdown(vmid, seconds, note_restart=isinstance(action, actions.StopToAdopt))
            case actions.Detach(vmid):
                self._detach(vmid)
            case actions.Destroy(vmid):
                self.destroy(vmid)
            case actions.DeleteVolume() | actions.DestroyPet():
                self._forgetter.perform(action)
            case actions.Seal(vmid):
                return self._seal(vmid, got)
            case (
                actions.BackUpPet()
                | actions.ConfirmBackup()
                | actions.RestoreSpare()
                | actions.CloneReader()
                | actions.DestroySpare()
            ):
                return self._archiver.perform(action, got)
            case _:
                assert_never(action)
        return {}

    def _create_pet(self, vmid: int, params: actions.Params) -> Got:
        agent = _agent_of_pet(params)
        first, later = _split(params)
        made = self._create(vmid, {**first, "description": self._contest.entry_notes(str(params["description"]))})
        self._contest.settle_pet(vmid, agent, later)
        return {**made, STATE_VOLUME.name: self._volume(vmid, MOUNT_KEY)} if MOUNT_KEY in params else made

    def _create_machine(self, action: actions.CreateCattle, got: Got) -> Got:
        first, later = _split(action.params)
        notes = self._contest.entry_notes(str(action.params["description"]))
        made = self._create(action.vmid, {**first, "description": notes})
        self._settle_machine(action.vmid, notes, resolved(action.volume, got), action.mount, later)
        return made

    def _settle_machine(self, vmid: int, notes: str, volume: str, mount: str, params: actions.Params) -> None:
        mark = Mark.from_notes(notes)
        if mark is None or mark.agent is None:
            raise PaddockError(f"the mark of machine {vmid} names no agent")
        owner = Mount.from_config(MOUNT_KEY, volume).owner
        self._contest.settle_machine(vmid, mark.agent, owner, {**params, MOUNT_KEY: f"{volume},mp={mount}"})
        self._expect_mount(vmid, volume, mount)

    def _create(self, vmid: int, params: actions.Params) -> Got:
        notes = with_version(str(params["description"]))
        # Proxmox checks the privilege for tags on the container alone, and it joins its pool when the task ends.
        first = {key: value for key, value in params.items() if key != "tags"}
        with self._making(vmid):
            self._task("POST", self._path, {"vmid": vmid, **first, "description": notes})
        mark = Mark.from_notes(notes)
        if mark is None:
            raise PaddockError(f"container {vmid} was created, but its notes have no mark that Paddock can read")
        made = self._expected.record_created(vmid, mark)
        if "tags" in params:
            self._put(self.read(vmid), {"tags": params["tags"]})
        return made

    def _configure(self, vmid: int, params: actions.Params) -> None:
        container = self.read(vmid)
        if MOUNT_KEY in params:
            check_key_free(container, MOUNT_KEY, str(params[MOUNT_KEY]).partition(",")[0])
        claim = Claim.from_notes(container.notes)
        if claim and claim.holder != self._holder.name:
            params = {**params, "description": without_claim(container.notes)}  # its run has died
        self._put(container, params)

    def _release(self, vmid: int) -> None:
        container = self.read(vmid)
        claim = Claim.from_notes(container.notes)
        if claim is None:
            return  # a step of this run has removed it
        try:
            self._put(container, {"description": without_claim(container.notes)})
        except Forbidden:
            self._reporter(f"the token may not write the notes of {container.name}: the claim of {claim.holder} stays")

    def _attach(self, vmid: int, key: str, volume: str, mount: str) -> None:
        container = self.read(vmid)
        check_key_free(container, key, volume)
        self._put(container, {key: f"{volume},mp={mount}"})

    def _include(self, vmid: int, key: str, *, backup: bool) -> None:
        self._put(self.read(vmid), {"protection": 0})
        try:
            pet = self.read(vmid)
            self._expected.check_volume(pet, key)
            if mount := pet.mount(key):
                self._put(pet, {key: mount.included(backup=backup)})
        finally:
            self._put(self.read(vmid), {"protection": 1})

    def _resize(self, vmid: int, key: str, size: str) -> None:
        container = self.read(vmid)
        self._expected.check_volume(container, key)
        digest = str(container.config["digest"])
        self._task("PUT", f"{self._path}/{vmid}/resize", {"disk": key, "size": size, "digest": digest})

    def _add_volume(self, vmid: int, key: str, value: str) -> str:
        pet = self.read(vmid)
        self._put(pet, {"protection": 0, "description": self._claimed_notes(pet.notes)})
        try:
            self._put(self.read(vmid), {key: value})
        finally:
            self._protect(vmid)
        return self._volume(vmid, key)

    def _clone(self, action: actions.CloneCattle, got: Got) -> Got:
        notes = self._contest.entry_notes(str(action.clone["description"]))
        made = self._clone_template(action.vmid, int(resolved(action.template, got)), action.clone, notes)
        self._settle_machine(action.vmid, notes, resolved(action.volume, got), action.mount, action.params)
        return made

    def _expect_mount(self, vmid: int, volume: str, path: str) -> None:
        mount = self.read(vmid).mount(MOUNT_KEY)
        if mount is None or (mount.volume, mount.path) != (volume, path):
            raise PaddockError(f"machine {vmid} does not have the state volume {volume} at {path}")

    def _start(self, vmid: int) -> None:
        self.read(vmid)
        try:
            with self._saying_why_not(vmid, "start"), self._unless_deleted(vmid):
                upid = str(self._client.send("POST", f"{self._path}/{vmid}/status/start"))
                self._warn(self._client.wait(upid, _START_SECONDS))
            if ":hastart:" in upid:
                self._await_status(vmid, "running", _HA_SECONDS)
        except Running:
            self._reporter(f"machine {vmid} is already running")

    @contextmanager
    def _saying_why_not(self, vmid: int, verb: str) -> Iterator[None]:
        """Put the line of a failed task's log first that says why the machine does not start or restart."""
        try:
            yield
        except TaskFailed as error:
            self.read(vmid)  # raises if somebody has deleted the machine
            if errors.is_for_want_of_a_bridge(error.outcome):
                self._expect_bridge(vmid)
            if error.outcome:
                why = errors.reason(error.outcome, error.log)
                said = f"machine {vmid} does not {verb}: {why}\n{error.message}"
                raise TaskFailed(said, hint=error.hint) from None
            raise

    def _expect_bridge(self, vmid: int) -> None:
        """Raise an error that names the bridges, if a machine did not start for want of its bridge.

        Not checked before: a bridge may be a virtual network, which the list need not have.
        """
        bridge = options_of(str(self.read(vmid).config.get("net0", ""))).get("bridge")
        rows = self._client.get(f"/nodes/{self._client.node}/network", {"type": "any_bridge"})
        bridges = sorted(str(row["iface"]) for row in rows)
        if bridge not in bridges:
            raise PaddockError(
                f"machine {vmid} does not start: node {self._client.node} has no bridge {bridge}",
                hint=f"the token may use: {', '.join(bridges) or 'none'}; write another machine.net.bridge, or another"
                " bridge of the place",
            )

    def _shutdown(self, vmid: int, seconds: int, *, note_restart: bool = False) -> None:
        machine = self.read(vmid)
        if note_restart:
            self._put(machine, {"description": with_restart_note(machine.notes)})
        elif machine.has(Role.CATTLE):
            # This run keeps the machine until it has reached it again or destroyed it.
            self._put(machine, {"description": self._claimed_notes(machine.notes)})
        try:
            with self._unless_deleted(vmid):
                self._task("POST", f"{self._path}/{vmid}/status/shutdown", {"timeout": seconds, "forceStop": 1})
        except NotRunning:
            self._reporter(f"machine {vmid} has already stopped")
        self._await_status(vmid, "stopped", seconds + _HA_SECONDS)

    def _await_status(self, vmid: int, status: str, seconds: float) -> None:
        """Wait until a machine has a status. Under HA, a task ends as soon as its request is queued."""
        wait = Wait(seconds)
        while True:
            now = self._client.get(f"{self._path}/{vmid}/status/current")
            ha = str(now.get("ha", {}).get("state") or "")
            if now["status"] == status and not ha.startswith("request_"):
                return
            if wait.is_over:
                about = f", and its HA service is in state {ha}" if ha else ""
                raise PaddockError(
                    f"machine {vmid} is {now['status']} after {seconds:.0f} s, and should be {status}{about}",
                    hint=f"its console on the node may show why; {CONTINUE}",
                )
            wait.pause()

    def _reach(self, vmid: int, *, clone: bool = False, from_file: str | None = None) -> Got:
        def record(key: str) -> None:
            container, mark = self._marked(vmid)
            notes = replace(mark, host_key=key).written_into(without_restart_note(container.notes))
            final = mark.role is Role.CATTLE and "," not in key  # two keys are on record during their exchange
            self._put(container, {"description": without_claim(notes) if final else notes})

        there = self.read(vmid)
        mark, card = there.mark, str(there.config.get("net0", ""))
        adopted = mark.agent.name if mark and mark.agent and mark.made_from is None else None
        known = HostKeyTrust(mark.host_keys if mark else (), from_file, adopted)
        reached = self._reacher.reach(vmid, known, record, clone=clone, card=card)
        machine = self.read(vmid)
        if machine.has(Role.CATTLE) and Claim.from_notes(machine.notes):
            self._put(machine, {"description": without_claim(machine.notes)})
        name = machine.mark.agent.name if machine.mark and machine.mark.agent else f"builder-{vmid}"
        return {**reached, REACHED_NAME.name: name}

    def _detach(self, vmid: int) -> None:
        self._drop(vmid, "mp")
        # Proxmox keeps a detached volume as unusedN, even one of another container.
        self._drop(vmid, "unused")

    def _drop(self, vmid: int, prefix: str) -> None:
        container = self.read(vmid)
        mounts = [mount for mount in container.mounts if mount.key.startswith(prefix)]
        # Removing an unused volume destroys it if the machine owns it. Bind mounts have no owner.
        if any(mount.owner in (vmid, None) for mount in mounts if not mount.is_bind):
            raise Refused(f"machine {vmid} has volumes that no pet owns: {', '.join(m.volume for m in mounts)}")
        if mounts:
            keys = ",".join(mount.key for mount in mounts)
            self._put(container, {"delete": keys, "description": self._claimed_notes(container.notes)})

    def destroy(self, vmid: int) -> None:
        """Delete a machine, builder or template; refuse unless it has only its root disk."""
        container = self.read(vmid)
        if container.mark is None or container.mark.role not in _DISPOSABLE:
            raise Refused(f"{container.name} has no mark that lets Paddock destroy it")
        more = [mount.key for mount in container.mounts if mount.key != "rootfs"]
        if more:
            raise Refused(f"{container.name} still has volumes: {', '.join(more)}")
        self._delete(container)

    def _seal(self, vmid: int, got: Got) -> Got:
        self._shutdown(vmid, 60)
        container = self.read(vmid)
        if container.mark is None or container.mark.role is not Role.BUILDER:
            raise Refused(f"{container.name} is not a builder of Paddock")
        made = self._client.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        marked = replace(container.mark, role=Role.TEMPLATE, host_key=got[HOST_KEY.name], made=made)
        # The claim stays until the conversion has ended: other runs destroy a builder without one.
        self._put(container, {"description": self._claimed_notes(marked.written_into(container.notes))})
        known = self._expected.record_created(vmid, marked)
        self._convert(vmid)
        template = self.read(vmid)
        self._put(template, {"description": without_claim(template.notes)})
        return {**known, TEMPLATE.name: str(vmid)}

    def _convert(self, vmid: int) -> None:
        """Convert a builder to a template. Proxmox returns no task to wait for."""
        try:
            self._client.send("POST", f"{self._path}/{vmid}/template")
        except AnswerLost:
            # A build takes minutes, so it is not given up before it is clear that Proxmox has not begun.
            if not self._becomes_template(vmid, 20):
                raise
        else:
            if not self._becomes_template(vmid, 300):
                raise PaddockError(f"builder {vmid} did not become a template")

    def _becomes_template(self, vmid: int, seconds: float) -> bool:
        wait = Wait(seconds)
        while not (container := self.read(vmid)).is_template or container.lock:
            if wait.is_over:
                return False
            clock.sleep(0.1)
        return True


def _split(params: actions.Params) -> tuple[dict[str, str | int], dict[str, str | int]]:
    """Return the parameters for creating a container, and those that are set when it is settled."""
    later = {key: value for key, value in params.items() if key == "tags"}
    return {key: value for key, value in params.items() if key not in later}, later


def _agent_of_pet(params: actions.Params) -> AgentId:
    """Return the agent of a new pet: from its volume's mount path, or from the mark if it has no volume yet."""
    mark = Mark.from_notes(str(params["description"]))
    own = agent_of(Mount.from_config(MOUNT_KEY, str(params.get(MOUNT_KEY, ""))))
    found = [own] if own else [*(mark.adopted_agents if mark else ())]
    if not found:
        raise PaddockError("the new pet has no agent")
    return found[0]
