"""Privileges follow from ACLs by Proxmox's rules."""

from __future__ import annotations

import pytest

from pvebox.access.accounts import Access, AclEntry, Group, Pool, Token, User
from pvebox.access.privileges import ALL
from pvebox.api.errors import CredentialsError, PrivilegeError


@pytest.fixture
def access() -> Access:
    made = Access(users={"root@pam": User(), "a@pve": User(), "off@pve": User(enabled=False)})
    made.roles |= {"Big": frozenset({"VM.Audit", "VM.Allocate"}), "Small": frozenset({"VM.Audit"})}
    made.tokens = {
        "a@pve!full": Token("s1", privsep=False),
        "a@pve!sep": Token("s2", privsep=True),
        "root@pam!t": Token("s3", privsep=False),
        "off@pve!t": Token("s4", privsep=False),
        "a@pve!old": Token("s5", privsep=False, expire=1),
    }
    made.acl = [AclEntry("/vms", "a@pve", "Big")]
    return made


def test_privileges_propagate_to_the_paths_below(access: Access) -> None:
    assert access.privileges("a@pve!full", "/vms/100") == {"VM.Audit": 1, "VM.Allocate": 1}
    assert access.privileges("a@pve!full", "/storage/x") == {}


def test_an_acl_entry_on_a_longer_path_replaces_those_on_its_prefixes(access: Access) -> None:
    access.acl.append(AclEntry("/vms/100", "a@pve", "Small"))
    assert access.privileges("a@pve", "/vms/100") == {"VM.Audit": 1}
    assert "VM.Allocate" in access.privileges("a@pve", "/vms/101")


def test_an_acl_entry_without_propagation_applies_only_to_its_path(access: Access) -> None:
    access.acl = [AclEntry("/vms", "a@pve", "Big", propagate=False)]
    assert access.privileges("a@pve", "/vms/100") == {}
    assert access.privileges("a@pve", "/vms") == {"VM.Audit": 0, "VM.Allocate": 0}


def test_a_token_with_privilege_separation_has_at_most_its_users_privileges(access: Access) -> None:
    assert access.privileges("a@pve!sep", "/vms/100") == {}
    access.acl.append(AclEntry("/", "a@pve!sep", "Administrator"))
    assert access.privileges("a@pve!sep", "/vms/100") == {"VM.Audit": 1, "VM.Allocate": 1}


def test_a_token_of_root_has_every_privilege(access: Access) -> None:
    assert set(access.privileges("root@pam!t", "/anything")) == ALL


def test_an_acl_entry_of_a_user_overrides_one_of_a_group(access: Access) -> None:
    access.groups["g"] = Group({"a@pve"})
    access.acl = [AclEntry("/vms", "@g", "Big"), AclEntry("/vms", "a@pve", "Small")]
    assert access.privileges("a@pve", "/vms/1") == {"VM.Audit": 1}


def test_the_role_noaccess_overrides_every_other_role(access: Access) -> None:
    access.acl.append(AclEntry("/vms", "a@pve", "NoAccess"))
    assert access.privileges("a@pve", "/vms/100") == {}


def test_privileges_on_a_pool_apply_to_its_members(access: Access) -> None:
    access.pools["lab"] = Pool(vmids={100})
    access.acl = [AclEntry("/pool/lab", "a@pve", "Big")]
    assert access.privileges("a@pve", "/vms/100") == {"VM.Audit": 0, "VM.Allocate": 0}
    assert access.privileges("a@pve", "/vms/101") == {}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (None, "No ticket"),
        ("Bearer s1", "No ticket"),
        ("PVEAPIToken=a@pve!full=wrong", "Authentication failed!"),
        ("PVEAPIToken=a@pve!none=s1", "Authentication failed!"),
        ("PVEAPIToken=a@pve!full:s1", "Authentication failed!"),
        ("PVEAPIToken=off@pve!t=s4", "Authentication failed!"),
        ("PVEAPIToken=a@pve!old=s5", "Authentication failed!"),
    ],
)
def test_wrong_credentials_are_rejected(access: Access, header: str | None, words: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        access.authenticate(header)
    assert caught.value.reason == words


def test_a_valid_token_is_authenticated(access: Access) -> None:
    assert access.authenticate("PVEAPIToken=a@pve!full=s1") == "a@pve!full"
    assert access.authenticate("PVEAPIToken a@pve!full=s1") == "a@pve!full"


def test_a_privilege_error_names_the_path_and_the_privilege(access: Access) -> None:
    with pytest.raises(PrivilegeError) as caught:
        access.require("a@pve", "/vms/1", ["VM.Audit", "VM.Clone"])
    assert caught.value.reason == "Permission check failed (/vms/1, VM.Clone)"
