"""Every privilege of the roles that `doctor` and `init` print is needed: a verb fails without it, and names it.

tests/data/privileges.yaml has a row for each privilege of each role: the verb, and what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest

from cases import DATA, agrees, read_case
from paddock.base.errors import PaddockError
from paddock.core.converge import cycle, up
from paddock.places.proxmox.access import roles
from paddock.places.proxmox.node.survey import who
from paddock.verbs import backup as backups
from places.conftest import node as node
from places.node import Node, PaperAgent
from places.test_doctor import WORKER
from places.test_doctor import bare as bare

GOLDEN: Final = DATA / "privileges.yaml"
DOWNLOADED: Final = {"url": "https://example.org/debian-13.tar.zst", "sha256": "0" * 64}


def doctor(agent: PaperAgent) -> None:
    """Raise what doctor says, as the verb exits with a code other than 0."""
    wrong = [f"{finding.subject}: {finding.evidence}" for finding in agent.examine()[0] if not finding.ok]
    if wrong:
        raise PaddockError("; ".join(wrong))


def look(agent: PaperAgent) -> None:
    """Raise what `init` says of a token that sees no storage or no bridge."""
    blind = who(agent.client).blind
    if blind:
        raise PaddockError("; ".join(blind))


VERBS: Final[dict[str, Callable[[PaperAgent], object]]] = {
    "up": up,
    "cycle": cycle,
    "backup": backups.back_up,
    "doctor": doctor,
    "init": look,
}


@dataclass(frozen=True)
class Way:
    """What a role is for: the file, and what exists before the verb."""

    file: dict[str, Any]
    exists: bool = False  # another token has brought the agent up
    beside: tuple[str, ...] = ()  # roles with the same privileges, which the token does not get
    verb: str = "up"


PLAIN: Final[dict[str, Any]] = {"template": "auto", "state": {"pet": 300, "size": "1G"}}
WAYS: Final = {
    "PaddockPet": Way(PLAIN, exists=True, beside=("PaddockPetSetup",), verb="cycle"),
    "PaddockPetSetup": Way(PLAIN, beside=("PaddockPet",)),
    "PaddockBackup": Way({**PLAIN, "backup": {"to": {"proxmox": {"storage": "local"}}}}, exists=True, verb="backup"),
    "PaddockDownload": Way({**PLAIN, "base": DOWNLOADED}),
    "PaddockNode": Way({**PLAIN, "base": DOWNLOADED}),
    "PaddockLook": Way(PLAIN, verb="init"),
}
# A verb that Proxmox refuses today only where doctor looks: see access._ROLES.
ONLY_DOCTOR: Final = "Pool.Audit"


def ready(node: Node, way: Way) -> None:
    """Give the token the roles that doctor prints for the file, except those with the same privileges.

    Before there is a file, it gets those with which it looks.
    """
    if way.verb == "init":
        commands = [*roles.role_commands(roles.looking()), *roles.acl_commands(roles.looking(), WORKER)]
    else:
        commands = [line for line in node.agent(token=WORKER, **way.file).examine()[1] if line.startswith("pveum")]
    for line in commands:
        if not any(line.endswith(f"--roles {role}") for role in way.beside):
            assert node.shell(line).code == 0, line
    if way.exists:
        up(node.agent(**way.file))


def told(node: Node, way: Way, role: str, privilege: str) -> dict[str, str]:
    """Take a privilege out of a role; return the verb that fails and what it says."""
    left = [each for each in roles._ROLES[role] if each != privilege]
    node.root("pveum", "role", "modify", role, "--privs", " ".join(left))
    verb = "doctor" if privilege == ONLY_DOCTOR else way.verb
    agent = node.agent(token=WORKER, **way.file)
    node.sent.clear()
    with pytest.raises(PaddockError) as caught:
        VERBS[verb](agent)
    assert not node.writes, "the verb began, and failed later"
    return {"verb": verb, "says": caught.value.message}


@pytest.mark.parametrize("role", roles._ROLES)
def test_a_verb_fails_without_each_privilege_and_names_it(bare: Node, role: str) -> None:
    way = WAYS.get(role, Way(PLAIN))
    ready(bare, way)
    for privilege in roles._ROLES[role]:
        found = told(bare, way, role, privilege)
        assert privilege in found["says"]
        assert agrees(GOLDEN, read_case(GOLDEN), f"{role} {privilege}", found)
    # With all of them the verb works; otherwise the table could show the lack of something else.
    bare.root("pveum", "role", "modify", role, "--privs", " ".join(roles._ROLES[role]))
    agent = bare.agent(token=WORKER, **way.file)
    assert way.verb == "init" or agent.examine()[1] == []
    if "base" not in way.file:  # nothing is downloaded here
        VERBS[way.verb](agent)


def test_the_table_has_a_row_for_each_privilege(show_table: Callable[[str], None]) -> None:
    rows = read_case(GOLDEN)
    assert list(rows) == [f"{role} {privilege}" for role, found in roles._ROLES.items() for privilege in found]
    show_table("\n".join(f"{name:38} {row['verb']:7} {row['says']}" for name, row in rows.items()))


def test_a_privilege_that_no_verb_needs_is_found(bare: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of the table itself."""
    role = "PaddockPetSetup"
    monkeypatch.setitem(roles._ROLES, role, (*roles._ROLES[role], "VM.Snapshot"))
    ready(bare, WAYS[role])
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        told(bare, WAYS[role], role, "VM.Snapshot")
