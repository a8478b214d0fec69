"""Random sequences of calls and random parameters keep the sandbox's invariants."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from levels import by_level
from pvebox.api.errors import INTERNAL
from pvebox.api.routes import api as table
from pvebox.guests.disks import every_volume
from sandbox.inprocess import TEMPLATE, Api

VMIDS = st.integers(100, 104)
KEYS = st.sampled_from(["mp0", "mp1", "unused0", "unused1", "rootfs"])
SNAPSHOTS = st.sampled_from(["aa", "bb"])
TOKENS = st.sampled_from(["root@pam!sandbox", "paddock@pve!deploy"])


class AnyOrder(RuleBasedStateMachine):
    """Sends random calls to a sandbox and checks its invariants."""

    def __init__(self) -> None:
        super().__init__()
        self._home = tempfile.TemporaryDirectory()
        self.api = Api(Path(self._home.name) / "state")

    def teardown(self) -> None:
        self._home.cleanup()

    def ask(self, method: str, path: str, **params: Any) -> None:
        answer = self.api.ask(method, path, **params)
        assert answer.headers["x-pvebox-reason"] != INTERNAL
        while running := self.api.cluster.tasks.running():
            assert running[0].ended.wait(10), f"{running[0].upid} does not finish"

    @rule(vmid=VMIDS, owner=VMIDS, shape=st.sampled_from(["bare", "new", "foreign", "started", "protected"]))
    def create(self, vmid: int, owner: int, shape: str) -> None:
        params: dict[str, Any] = {"vmid": vmid, "ostemplate": TEMPLATE, "rootfs": "local-lvm:1"}
        if shape == "new":
            params["mp0"] = "local-lvm:1,mp=/data"
        elif shape == "foreign":
            params["mp0"] = f"local-lvm:vm-{owner}-disk-1,mp=/data"
        elif shape == "started":
            params["start"] = 1
        elif shape == "protected":
            params["protection"] = 1
        self.ask("POST", "/nodes/pve/lxc", **params)

    @rule(vmid=VMIDS, verb=st.sampled_from(["start", "stop", "shutdown", "reboot"]))
    def power(self, vmid: int, verb: str) -> None:
        self.ask("POST", f"/nodes/pve/lxc/{vmid}/status/{verb}")

    @rule(vmid=VMIDS, force=st.booleans(), unreferenced=st.booleans())
    def destroy(self, vmid: int, force: bool, unreferenced: bool) -> None:
        flags = {"force": int(force), "destroy-unreferenced-disks": int(unreferenced)}
        self.ask("DELETE", f"/nodes/pve/lxc/{vmid}", **flags)

    @rule(vmid=VMIDS, key=KEYS, owner=VMIDS, number=st.integers(0, 3), new=st.booleans())
    def attach(self, vmid: int, key: str, owner: int, number: int, new: bool) -> None:
        volume = "local-lvm:1" if new else f"local-lvm:vm-{owner}-disk-{number}"
        value = volume if key == "rootfs" or key.startswith("unused") else f"{volume},mp=/x"
        self.ask("PUT", f"/nodes/pve/lxc/{vmid}/config", **{key: value})

    @rule(vmid=VMIDS, key=KEYS)
    def detach(self, vmid: int, key: str) -> None:
        self.ask("PUT", f"/nodes/pve/lxc/{vmid}/config", delete=key)

    @rule(vmid=VMIDS, on=st.booleans())
    def protect(self, vmid: int, on: bool) -> None:
        self.ask("PUT", f"/nodes/pve/lxc/{vmid}/config", protection=int(on))

    @rule(vmid=VMIDS, key=KEYS)
    def grow(self, vmid: int, key: str) -> None:
        self.ask("PUT", f"/nodes/pve/lxc/{vmid}/resize", disk=key, size="+1G")

    @rule(vmid=VMIDS, to=VMIDS, key=KEYS, slot=KEYS)
    def reassign(self, vmid: int, to: int, key: str, slot: str) -> None:
        where = {"target-vmid": to, "target-volume": slot}
        self.ask("POST", f"/nodes/pve/lxc/{vmid}/move_volume", volume=key, **where)

    @rule(vmid=VMIDS, verb=st.sampled_from(["take", "roll back", "delete"]), name=st.sampled_from(["aa", "bb"]))
    def snapshot(self, vmid: int, verb: str, name: str) -> None:
        path = f"/nodes/pve/lxc/{vmid}/snapshot"
        if verb == "take":
            self.ask("POST", path, snapname=name)
        elif verb == "delete":
            self.ask("DELETE", f"{path}/{name}")
        else:
            self.ask("POST", f"{path}/{name}/rollback")

    @rule(vmid=VMIDS, newid=VMIDS, full=st.booleans())
    def clone(self, vmid: int, newid: int, full: bool) -> None:
        self.ask("POST", f"/nodes/pve/lxc/{vmid}/clone", newid=newid, full=int(full))

    @invariant()
    def every_volume_in_a_config_has_an_owner(self) -> None:
        cluster = self.api.cluster
        for vmid in cluster.configs.vmids():
            config = cluster.configs.load(vmid, "pve")
            for volid in every_volume(config.options):
                if not volid.startswith("local-lvm:1") and cluster.runtime.volumes.get(cluster.locate(volid, "pve")[1]):
                    assert cluster.parse_volume(volid).owner is not None

    @invariant()
    def configs_and_files_and_running_containers_agree(self) -> None:
        cluster = self.api.cluster
        files = {int(file.stem) for file in (self.api.directory / "pve/nodes/pve/lxc").glob("*.conf")}
        assert files == set(cluster.configs.vmids())
        assert all(cluster.configs.exists(vmid) for vmid in range(100, 105) if cluster.runtime.containers.running(vmid))

    @invariant()
    def every_task_finishes_without_a_python_error(self) -> None:
        for task in self.api.cluster.tasks.newest_first():
            assert task.exitstatus is not None
            assert INTERNAL not in task.exitstatus

    @invariant()
    def only_a_failed_rollback_leaves_a_lock(self) -> None:
        cluster = self.api.cluster
        locks = {cluster.configs.load(vmid, "pve").text("lock") for vmid in cluster.configs.vmids()}
        assert locks <= {None, "rollback", "snapshot-delete"}


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=by_level(15, 50), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


ANY_TEXT = st.one_of(
    st.sampled_from(["", "0", "1", "100", "local-lvm:1", "local-lvm:1,mp=/x", "/srv/x,mp=/y", "a=b", "-1", "x" * 50]),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=20),
)
CALLERS = {"root@pam!sandbox", "paddock@pve!deploy"}
METHODS = sorted({(method.verb, method.path) for method in table})


@settings(max_examples=by_level(150, 600), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_parameters_cause_a_python_error_in_the_api(data: st.DataObject, tmp_path_factory: Any) -> None:
    api = _shared(tmp_path_factory)
    verb, path = data.draw(st.sampled_from(METHODS))
    found = table.find(verb, path)
    assert found is not None
    names = st.sampled_from([*found[0].properties, "bogus"])
    params = data.draw(st.dictionaries(names, ANY_TEXT, max_size=5))
    values = {"node": "pve", "vmid": "100", "storage": "local-lvm", "snapname": "aa", "userid": "root@pam"}
    filled = re.sub(r"\{(\w+)\*?\}", lambda part: values.get(part[1], "x"), path)
    params = {key: value for key, value in params.items() if f"{{{key}" not in path}
    answer = api.ask(verb, filled, data.draw(st.sampled_from(sorted(CALLERS))), **params)
    assert answer.headers["x-pvebox-reason"] != INTERNAL, (verb, filled, params)
    for task in api.cluster.tasks.newest_first():
        assert task.ended.wait(10)
        assert INTERNAL not in str(task.exitstatus), (verb, filled, params)


_APIS: list[Api] = []


def _shared(tmp_path_factory: Any) -> Api:
    # A request can delete a storage, or the users with their tokens.
    if (
        not _APIS
        or "local-lvm" not in _APIS[0].cluster.storages
        or not _APIS[0].cluster.access.tokens.keys() >= CALLERS
    ):
        _APIS[:] = [Api(tmp_path_factory.mktemp("fuzz") / "state")]
    api = _APIS[0]
    if not api.cluster.configs.exists(100):
        api.create(100, mp0="local-lvm:1,mp=/data")
    return api


def _is_usable(api: Api) -> bool:
    """Return whether no request has deleted the storage, or the users with their tokens."""
    return "local-lvm" in api.cluster.storages and api.cluster.access.tokens.keys() >= CALLERS
