"""Keys of one agent are written into the user's file."""

from __future__ import annotations

from pathlib import Path

from paddock.file.edit import as_assignments, as_text, write_into
from paddock.kinds import load

FILE = """\
# my agents
project: home
places:
  here: {host: {}}          # this machine
  home:
    proxmox: {url: "https://node:8006", node: pve, token: {env: T}, storage: lvm, base: "local:vztmpl/x", ssh: {key: i}}
agents:
  bee:
    kind: service           # small
    command: [/bin/true]
    place: home
    machine: {cores: 2, disk: 8G}   # to be looked at again
  ant: {kind: service, command: [/bin/true], place: home}
"""
SAID = {
    "machine": {"vmid": 105, "cores": 3, "description": "two\nlines: here", "dns": ["9.9.9.9"], "swap": 0},
    "state": {"size": "10G", "path": "/home/bee", "pet": 999},
}


def test_writing_keys_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    path.chmod(0o640)
    assert write_into([path], "bee", SAID).path == path
    assert path.stat().st_mode & 0o777 == 0o640
    written = path.read_text().splitlines()
    kept = [line for line in FILE.splitlines() if "machine:" not in line]
    assert [line for line in written if line in kept] == kept
    assert any(line.endswith("# to be looked at again") for line in written)
    spec = load(path).spec.agents["bee"]
    assert (spec.machine.vmid, spec.machine.cores, str(spec.machine.disk)) == (105, 3, "8G")
    assert spec.machine.description == "two\nlines: here"
    assert (spec.state.path, spec.state.pet.vmid, spec.machine.swap) == ("/home/bee", 999, 0)


def test_the_written_file_equals_the_file_with_set_options(tmp_path: Path) -> None:
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    tried = load(path, sets=as_assignments("bee", SAID)).spec
    write_into([path], "bee", SAID)
    assert load(path).spec == tried


def test_a_key_with_the_value_none_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    write_into([path], "bee", {"machine": {"cores": None}, "state": {"volume": None, "size": "10G"}})
    assert "cores" not in path.read_text()
    assert "volume" not in path.read_text()
    assert load(path).spec.agents["bee"].machine.cores == 2


def test_the_last_file_that_has_the_agent_is_changed(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("a.yaml", "b.yaml", "c.yaml"))
    first.write_text(FILE)
    second.write_text("agents: {bee: {machine: {memory: 4G}}}\n")
    third.write_text("agents: {ant: {enabled: false}}\n")
    assert write_into([first, second, third], "bee", SAID).path == second
    assert first.read_text() == FILE
    assert load(first, second, third).spec.agents["bee"].machine.cores == 3


def test_the_values_are_printed_as_yaml() -> None:
    assert as_text("bee", {"state": {"size": "10G"}}) == "agents:\n  bee:\n    state:\n      size: 10G\n"


def test_a_plain_value_is_written_and_undone_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE.replace("kind: service           #", "kind:   service   #"))
    before = path.read_bytes()
    rewritten = write_into([path], "bee", {"version": "0.20", "package": None})
    assert "version: '0.20'\n" in path.read_text(), "a version is a text, not a number"
    assert rewritten.undo()
    assert path.read_bytes() == before


def test_a_file_that_was_changed_again_is_not_set_back(tmp_path: Path) -> None:
    path = tmp_path / "paddock.yaml"
    path.write_text(FILE)
    rewritten = write_into([path], "bee", {"version": "0.20"})
    changed = path.read_text() + "# by hand\n"
    path.write_text(changed)
    assert not rewritten.undo()
    assert path.read_text() == changed
