"""Load the recordings, and mask the values that a comparison ignores."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

DATA = Path(__file__).parents[1] / "data" / "recordings"
Json = Any


@dataclass(frozen=True)
class Renaming:
    """Other VMIDs, node and storage names for the recordings. The answers must not depend on them."""

    vmid_shift: int = 0
    node: str = "pve"
    thin_storage: str = "local-lvm"
    dir_storage: str = "local"
    added_storage: str = "livdir"

    def apply(self, value: Json, key: str = "") -> Json:
        """Return a recorded value with all VMIDs, nodes and storages renamed."""
        if self == RECORDED_NAMES:
            return value
        match value:
            case dict():
                return {self._key(name, entry): self.apply(entry, name) for name, entry in value.items()}
            case list():
                return [self.apply(entry, key) for entry in value]
            case int() if key in _VMID_KEYS and value >= 100:
                return value + self.vmid_shift
            case str():
                return self._text(value, key)
        return value

    def _key(self, name: str, entry: Json) -> str:
        # In the cluster's status, 'local' is a flag and not a storage.
        return name if isinstance(entry, int) and name == "local" else self._text(name, "key")

    def _text(self, text: str, key: str) -> str:
        if key in _NAME_KEYS and text == "pve":
            return self.node
        if key in _VMID_KEYS and re.fullmatch(r"[1-9]\d\d(,\d{3})*", text):
            return ",".join(str(int(vmid) + self.vmid_shift) for vmid in text.split(","))
        if text.startswith("pool:"):
            return re.sub(r"\b\d{3}\b", lambda found: str(int(found[0]) + self.vmid_shift), text)
        if key == "id":
            text = _TASK_VMID.sub(lambda found: str(int(found[0]) + self.vmid_shift), text)
        text = _DIR_STORAGE.sub(lambda found: found[1] + self.dir_storage, text)
        text = text.replace("local-lvm", self.thin_storage)
        text = _NODE.sub(lambda found: found[1] + self.node, text)
        text = _VMID.sub(lambda found: found[1] + str(int(found[2]) + self.vmid_shift), text)
        return text.replace("livdir", self.added_storage)


RECORDED_NAMES = Renaming()
_VMID_KEYS = ("vmid", "newid", "target-vmid", "vms", "id", "running", "key")
_NAME_KEYS = ("node", "name", "key")
_TASK_VMID = re.compile(r"(?:(?<=^)|(?<=>))\d{3}(?=[-@])")
_DIR_STORAGE = re.compile(
    r"(^|/storage/|storage/pve/|storage '|volume '?|@|--storage |content/|from '|restoring '|backup ')local(?![-\w])"
)
_NODE = re.compile(r"(/nodes/|nodes/|node/|node '|UPID:|storage/|--node |livpet \d{3} )pve(?=[/:',) ]|$)")
_VMID = re.compile(
    r"((?:vm|base)-|/lxc/|/vms/|lxc/|CT ?|VM '?|container '?|container \(|pve-config-|images/|"
    r"unpack |clone|:vz[a-z]+:|:resize:|:imgdel:|:prunebackups:|:move_volume:|\d>|checkpoint -n |content/|dirct:|"
    r"livdir:|vzdump-lxc-|vzdump |livpet )"
    r"(?<![\d.])(\d{3})(?=$|[-/.@>:,' )\"\\\n])"
)


@dataclass(frozen=True)
class Recordings:
    """Recorded requests with their answers, the states before and after them, and the accounts they use."""

    cases: list[Json]
    states: dict[str, Json]
    _first_fixture: Json
    _living_fixture: Json
    _cluster_fixture: Json

    def fixture(self, case: Json) -> Json:
        """Return the accounts, storages and templates that a recorded request was sent to."""
        if case.get("world") == "cluster":
            return {**self._living_fixture, **self._cluster_fixture}
        return self._first_fixture if case["id"].startswith("r") else self._living_fixture

    def all_accounts(self) -> Json:
        """Return one fixture with the users and tokens of all recordings."""
        first, living = self._first_fixture, self._living_fixture
        return {**first, **{key: {**first[key], **living[key]} for key in ("users", "tokens")}}

    def replayable(self) -> list[Json]:
        """Return the requests to one node whose answers do not depend on tasks of earlier requests."""
        return [case for case in self.cases if not any(case.get(key) for key in ("history", "note", "world"))]

    def clustered(self) -> list[Json]:
        """Return the requests to a cluster of several nodes."""
        return [case for case in self.cases if case.get("world") == "cluster"]


@functools.cache
def load(renaming: Renaming = RECORDED_NAMES) -> Recordings:
    """Return the recordings, renamed if asked."""
    names = ("pve", "pools", "living")
    lines = [line for name in names for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]
    cases = [json.loads(line) for line in lines if line]
    pools, living = _read("states-pools"), _read("states-living")
    for state in pools.values():
        _add_outsider(state)
    _add_archives(cases, living)
    states = {**_read("states"), **pools, **living}
    return Recordings(
        renaming.apply(cases),
        renaming.apply(states),
        renaming.apply(_read("fixture")),
        renaming.apply(_read("fixture-living")),
        renaming.apply(_read("fixture-cluster")),
    )


def _read(name: str) -> dict[str, Json]:
    found: dict[str, Json] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _add_archives(cases: list[Json], states: dict[str, Json]) -> None:
    """Add the configs, sizes and notes of the backups to the states, which have only the backups' file names.

    They follow from the requests that made, changed and listed the backups. Where the request that made a backup
    is not recorded, the sandbox assumes the container's current config. Notes change while the state's files stay
    the same, so a state has the notes of its first request.
    """
    archives: dict[str, str] = {}
    sizes: dict[str, int] = {}
    notes: dict[str, str] = {}
    for case in cases:
        if not case["id"].startswith("L") or "world" in case:
            continue
        before = states[case["before"]]
        before.setdefault("notes", dict(notes))
        sizes.update(_listed_sizes(case))
        if case.get("after"):
            _follow_backups(case, before, states[case["after"]], archives, notes)
            states[case["after"]].setdefault("notes", dict(notes))
    for state in states.values():
        files = state.get("dir", ())
        state["archives"] = {file: text for file, text in archives.items() if file in files}
        state["sizes"] = {file: size for file, size in sizes.items() if file in files}


def _listed_sizes(case: Json) -> dict[str, int]:
    body = case["response"]["body"]
    entries = body.get("data") if isinstance(body, dict) else None
    return {
        f"/var/lib/vz/dump/{entry['volid'].removeprefix('local:backup/')}": entry["size"]
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and entry.get("content") == "backup" and entry["volid"].startswith("local:")
    }


def _follow_backups(case: Json, before: Json, after: Json, archives: dict[str, str], notes: dict[str, str]) -> None:
    params = case["request"].get("params") or {}
    if case["request"]["path"].endswith("/vzdump"):
        for file in {*after["dir"]} - {*before["dir"]}:
            vmid = re.findall(r"/vzdump-lxc-(\d+)-", file)[0]
            config = before["config"][vmid]
            if re.search(r"\.tar(\.(gz|lzo|zst))?$", file):
                archives[file] = _saved_config(config)
            elif file.endswith(".notes"):
                said = params["notes-template"]
                guest = re.search(r"^hostname: (.*)", config, re.MULTILINE)
                values = {"guestname": guest[1] if guest else "", "vmid": vmid, "node": "pve"}
                for name, value in {**values, "cluster": "standalone node"}.items():
                    said = said.replace("{{" + name + "}}", value)
                notes[file.removesuffix(".notes")] = said
    elif "notes" in params:
        name = unquote(case["request"]["path"]).rpartition("/")[2]
        notes[f"/var/lib/vz/dump/{name}"] = params["notes"]


def _saved_config(text: str) -> str:
    """Return the config that a backup has of a container: without snapshots and without the parent snapshot."""
    lines = text.partition("\n[")[0].rstrip("\n").split("\n")
    return "".join(f"{line}\n" for line in lines if not line.startswith("parent: "))


def _add_outsider(state: dict[str, Json]) -> None:
    """Add the container outside the pools, which existed all the time. The states have only 500 to 599."""
    state["config"]["105"] = (
        "arch: amd64\nhostname: outsider\nmemory: 512\nostype: debian\n"
        "rootfs: local-lvm:vm-105-disk-0,size=2G\nswap: 512\nunprivileged: 1\n"
    )
    state["volumes"]["vm-105-disk-0"] = 2 << 30


# Figures that depend on the machine and on the time.
_LIVE = frozenset(
    {
        *("pid", "pstart", "starttime", "endtime", "uptime", "mem", "cpu", "disk", "netin", "netout"),
        *("diskread", "diskwrite", "digest", "ctime", "used", "avail", "used_fraction", "total"),
        *("snaptime", "upid", "ssl_fingerprint", "ip", "address", "cidr", "gateway", "netmask"),
    }
)


def masked(value: Json) -> Json:
    """Mask live figures, addresses and times in a value, and sort unordered lists."""
    match value:
        case dict():
            hidden = {"maxdisk"} if value.get("status") == "running" or value.get("type") == "storage" else set()
            hidden |= {"maxdisk", "maxmem"} if value.get("type") == "node" else set()
            shown: dict[str, Json] = {}
            for key, entry in value.items():
                if key in _LIVE or key in hidden:
                    shown[key] = "masked" if entry is not None else None
                elif key == "content" and isinstance(entry, str):
                    shown[key] = sorted(entry.split(","))
                elif key == "size" and value.get("content") == "vztmpl":
                    shown[key] = "masked"
                else:
                    shown[key] = masked(entry)
            if value.get("key") == "digest":
                shown["value"] = "masked"
            return shown
        case list():
            entries = [masked(entry) for entry in value]
            return sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))
        case str():
            return masked_text(value)
    return value


def masked_text(text: str) -> str:
    """Mask MAC addresses, pids, device numbers and line numbers in a text."""
    text = re.sub(r"\.conf\.tmp\.\d+", ".conf.tmp.N", text)
    text = re.sub(r"(?i)\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b", _mask_mac, text)
    text = re.sub(r"UPID:([^:]+):[0-9A-F]{8}:[0-9A-F]{8,9}:[0-9A-F]{8}:", r"UPID:\1:", text)
    text = re.sub(r"/dev/(dm-|loop)\d+", "/dev/N", text)
    text = re.sub(r"(vzdump-lxc-\d+-)\d{4}_\d\d_\d\d-\d\d_\d\d_\d\d", r"\1T", text)
    return re.sub(r" line \d+\.", " line N.", text)


def _mask_mac(found: re.Match[str]) -> str:
    return found[0] if found[0] == "00:00:00:00:00:00" else "MAC"


# Figures, times and process ids in the logs of backups and restores.
_MEASURED = (
    (r"(Backup (started|finished)|Failed) at .*", r"\1 at T"),
    (r"Total bytes (read|written): .*", r"Total bytes \1"),
    (r"archive file size: .*", "archive file size"),
    (r"(Finished Backup of VM \d+) \(.*\)", r"\1"),
    (r"online again after (<1|\d+) seconds", "online again"),
    (r"/proc/\d+/root/", "/proc/PID/root/"),
    (r"transferred .* in \d+s", "transferred"),
    (r"UUID: \S+", "UUID"),
)


def masked_log(lines: Iterable[str]) -> list[str]:
    """Mask measured values in the lines of a log, and sort the options of a vzdump command line.

    Proxmox prints the options in the order of a Perl hash, which is random.
    """
    found = []
    for line in lines:
        text = masked_text(line)
        for pattern, replacement in _MEASURED:
            text = re.sub(pattern, replacement, text)
        command, *options = text.split(" --") if "new backup job" in text else [text]
        found.append(" --".join([command, *sorted(options)]))
    return found


def masked_config(text: str) -> str:
    """Mask MAC addresses and times in the text of a config file."""
    return re.sub(r"snaptime: \d+", "snaptime: T", masked_text(text))


def renumbered(state: Mapping[str, Json], new_vmid: str | None) -> tuple[dict[str, str], dict[str, int]]:
    """Return configs and volumes with a clone's volumes numbered in the order of its mount points.

    Proxmox copies a clone's volumes in the order of a Perl hash, which is random.
    """
    configs = {vmid: masked_config(text) for vmid, text in state["config"].items()}
    volumes = dict(state["volumes"])
    if new_vmid is None or new_vmid not in configs:
        return configs, volumes
    found = re.findall(rf"^(?:rootfs|mp\d+): [^:]+:(vm-{new_vmid}-disk-\d+)", configs[new_vmid], re.MULTILINE)
    ordered = sorted(found, key=lambda name: configs[new_vmid].index(name))
    names = {old: f"vm-{new_vmid}-disk-#{number}" for number, old in enumerate(ordered)}
    for old, new in names.items():
        configs[new_vmid] = re.sub(rf"{old}(?!\d)", new, configs[new_vmid])
        if old in volumes:
            volumes[new] = volumes.pop(old)
    return configs, volumes
