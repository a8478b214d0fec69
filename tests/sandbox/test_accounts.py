"""Users, groups, roles, ACLs and tokens: who may change them, what is rejected, and what a change leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pvebox.access.accounts import AclEntry, Token, User
from pvebox.access.lines import access_lines, apply_access_lines
from pvebox.cluster.assembly import memory_cluster
from pvebox.console.console import Console
from sandbox.inprocess import Api, Json

ROOT = "root@pam!sandbox"
CLERK = "clerk@pve!tk"


@pytest.fixture
def api(tmp_path: Path) -> Api:
    """Return a sandbox with a user without rights, who has a token of the same rights."""
    made = Api(tmp_path / "state")
    made.cluster.access.users["clerk@pve"] = User()
    made.cluster.access.tokens[CLERK] = Token("secret", privsep=False)
    return made


def root(api: Api, method: str, path: str, /, **params: Json) -> Json:
    answer = api.ask(method, path, ROOT, **params)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def lines(api: Api, kind: str) -> list[str]:
    return [line for line in access_lines(api.cluster.access) if line.startswith(f"{kind}:")]


def grant(api: Api, path: str, *privileges: str) -> None:
    role = "-".join(privileges).replace(".", "_")
    api.cluster.access.roles[role] = frozenset(privileges)
    api.cluster.access.acl.append(AclEntry(path, "clerk@pve", role))


@pytest.mark.parametrize(
    ("method", "path", "params", "rights", "reason"),
    [
        ("POST", "/access/users", {"userid": "new@pve"}, {}, " (/access/realm/pve, Realm.AllocateUser)"),
        (
            "POST",
            "/access/users",
            {"userid": "new@pve"},
            {"/access/realm/pve": "Realm.AllocateUser"},
            " (/access/groups, User.Modify)",
        ),
        (
            "POST",
            "/access/users",
            {"userid": "new@pve", "groups": "g"},
            {"/access/realm/pve": "Realm.AllocateUser"},
            " (/access/groups/g, User.Modify)",
        ),
        ("GET", "/access/users/pooled@pve", {}, {}, ""),
        ("PUT", "/access/users/pooled@pve", {"comment": "x"}, {}, " (/access/groups, User.Modify)"),
        ("PUT", "/access/users/pooled@pve", {"groups": "g"}, {"/access/groups/g": "User.Modify"}, ""),
        ("DELETE", "/access/users/pooled@pve", {}, {}, " (/access/realm/pve, Realm.AllocateUser)"),
        ("DELETE", "/access/users/pooled@pve", {}, {"/access/realm/pve": "Realm.AllocateUser"}, ""),
        ("GET", "/access/users/clerk@pve/token", {}, {}, ""),
        ("POST", "/access/users/nobody@pve/token/tk", {}, {"/access/groups": "User.Modify"}, ""),
        ("POST", "/access/groups", {"groupid": "h"}, {}, " (/access/groups, Group.Allocate)"),
        ("PUT", "/access/groups/g", {"comment": "x"}, {}, " (/access/groups, Group.Allocate)"),
        ("DELETE", "/access/groups/g", {}, {}, " (/access/groups, Group.Allocate)"),
        ("GET", "/access/groups/g", {}, {}, " (/access/groups, Sys.Audit|Group.Allocate)"),
        ("POST", "/access/roles", {"roleid": "R"}, {}, " (/access, Sys.Modify)"),
        ("PUT", "/access/roles/PoolPet", {"privs": "VM.Audit"}, {}, " (/access, Sys.Modify)"),
        ("DELETE", "/access/roles/PoolPet", {}, {}, " (/access, Sys.Modify)"),
        ("PUT", "/access/acl", {"path": "/vms/100"}, {}, " (/vms/100, Permissions.Modify|VM.Allocate)"),
        ("PUT", "/access/acl", {"path": "/storage/a/"}, {}, " (/storage/a, Permissions.Modify|Datastore.Allocate)"),
        ("PUT", "/access/acl", {"path": "/pool/a"}, {}, " (/pool/a, Permissions.Modify|Pool.Allocate)"),
        ("PUT", "/access/acl", {"path": "/vms"}, {}, " (/vms, Permissions.Modify)"),
        ("GET", "/access/domains/pve", {}, {}, " (/access/realm, Realm.Allocate|Sys.Audit)"),
    ],
)
def test_a_caller_without_the_right_is_refused(
    api: Api, method: str, path: str, params: dict[str, str], rights: dict[str, str], reason: str
) -> None:
    root(api, "POST", "/access/groups", groupid="g")
    for where, privilege in rights.items():
        grant(api, where, privilege)
    answer = api.ask(method, path, CLERK, **params)
    assert (answer.status_code, answer.json()["message"]) == (403, f"Permission check failed{reason}\n")


def test_the_exact_rights_are_enough(api: Api) -> None:
    root(api, "POST", "/access/groups", groupid="g")
    grant(api, "/access/realm/pve", "Realm.AllocateUser")
    grant(api, "/access/groups/g", "User.Modify", "Sys.Audit")
    assert api.ask("POST", "/access/users", CLERK, userid="new@pve", groups="g").status_code == 200
    assert api.ask("PUT", "/access/users/new@pve", CLERK, comment="x", groups="g").status_code == 200
    assert api.ask("GET", "/access/users/new@pve", CLERK).json()["data"]["groups"] == ["g"]
    assert api.ask("POST", "/access/users/new@pve/token/tk", CLERK).status_code == 200
    assert [user["userid"] for user in api.ask("GET", "/access/users", CLERK).json()["data"]] == ["new@pve"]
    assert api.ask("DELETE", "/access/users/new@pve", CLERK).status_code == 200


def test_who_may_allocate_a_container_may_also_give_rights_on_it(api: Api) -> None:
    grant(api, "/vms/100", "VM.Allocate")
    given = {"path": "/vms/100", "roles": "PVEAuditor", "users": "pooled@pve"}
    assert api.ask("PUT", "/access/acl", CLERK, **given).status_code == 200
    seen = api.ask("GET", "/access/acl", CLERK).json()["data"]
    assert {entry["path"] for entry in seen} == {"/vms/100"}


@pytest.mark.parametrize(
    ("method", "path", "params", "errors"),
    [
        ("POST", "/access/users", {"userid": "x@pve", "password": "short"}, {"password": "at least 8 characters long"}),
        ("POST", "/access/users", {"userid": "x@pve", "email": "no"}, {"email": "a valid email address"}),
        ("POST", "/access/users", {"userid": "x@pve", "expire": -1}, {"expire": "minimum value of 0"}),
        ("PUT", "/access/users/clerk@pve", {"append": 1}, {"groups": "missing property required by 'append'"}),
        ("POST", "/access/groups", {"groupid": "a b"}, {"groupid": "group name 'a b' contains invalid characters"}),
        ("POST", "/access/roles", {"roleid": "R", "privs": "VM.No"}, {"privs": "invalid privilege 'VM.No'"}),
        ("POST", "/access/roles", {"roleid": "pveX"}, {"roleid": "'PVE' namespace"}),
        ("PUT", "/access/acl", {"path": "/vms"}, {"roles": "property is missing and it is not optional"}),
        (
            "PUT",
            "/access/acl",
            {"path": "/vms", "roles": "PVEAuditor"},
            dict.fromkeys(("users", "groups", "tokens"), "either 'users', 'groups' or 'tokens' is required."),
        ),
        (
            "PUT",
            "/access/acl",
            {"path": "/nonsense", "roles": "PVEAuditor", "users": "clerk@pve"},
            {"path": "invalid ACL path '/nonsense'"},
        ),
        ("PUT", "/access/acl", {"path": "/vms", "roles": "A", "tokens": "x"}, {"tokens": "a valid token ID"}),
        ("POST", "/access/users/clerk@pve/token/tk", {}, {"tokenid": "Token already exists."}),
        ("POST", "/access/users/clerk@pve/token/1", {}, {"tokenid": "does not match the regex pattern"}),
    ],
)
def test_wrong_parameters_are_named(
    api: Api, method: str, path: str, params: dict[str, str], errors: dict[str, str]
) -> None:
    answer = api.ask(method, path, ROOT, **params)
    assert answer.status_code == 400
    said = answer.json()["errors"]
    assert said.keys() == errors.keys()
    assert all(errors[key] in said[key] for key in errors), said


@pytest.mark.parametrize(
    ("method", "path", "params", "message"),
    [
        ("POST", "/access/users", {"userid": "clerk@pve"}, "create user failed: user 'clerk@pve' already exists"),
        ("POST", "/access/users", {"userid": "x@pve", "groups": "no"}, "create user failed: no such group 'no'"),
        (
            "POST",
            "/access/users",
            {"userid": "x@else", "password": "long-enough"},
            "create user failed: auth domain 'else' does not exist",
        ),
        (
            "POST",
            "/access/users",
            {"userid": "x@pam", "password": "long-enough"},
            "create user failed: change password failed: usermod: user 'x' does not exist",
        ),
        ("GET", "/access/users/nobody@pve", {}, "no such user ('nobody@pve')"),
        ("GET", "/access/users/x", {}, "user name 'x' is too short"),
        ("GET", "/access/users/nobody", {}, "value 'nobody' does not look like a valid user name"),
        ("PUT", "/access/users/nobody@pve", {"comment": "x"}, "no such user ('nobody@pve')"),
        ("DELETE", "/access/users/nobody@pve", {}, "no such user ('nobody@pve')"),
        ("GET", "/access/users/clerk@pve/token/no", {}, "no such token 'no' for user 'clerk@pve'"),
        ("DELETE", "/access/users/clerk@pve/token/no", {}, "no such token 'no' for user 'clerk@pve'"),
        ("GET", "/access/groups/no", {}, "group 'no' does not exist"),
        ("PUT", "/access/groups/no", {"comment": "x"}, "update group failed: group 'no' does not exist"),
        ("DELETE", "/access/groups/no", {}, "delete group failed: group 'no' does not exist"),
        ("GET", "/access/roles/No", {}, "role 'No' does not exist"),
        ("POST", "/access/roles", {"roleid": "PoolPet"}, "create role failed: role 'PoolPet' already exists"),
        ("PUT", "/access/roles/PVEAdmin", {"privs": ""}, "auto-generated role 'PVEAdmin' cannot be modified"),
        ("DELETE", "/access/roles/PVEAdmin", {}, "auto-generated role 'PVEAdmin' cannot be deleted"),
        ("DELETE", "/access/roles/No", {}, "delete role failed: role 'No' does not exist"),
        (
            "PUT",
            "/access/acl",
            {"path": "/vms", "roles": "No", "users": "clerk@pve"},
            "ACL update failed: role 'No' does not exist",
        ),
        (
            "PUT",
            "/access/acl",
            {"path": "/vms", "roles": "PVEAuditor", "groups": "no"},
            "ACL update failed: group 'no' does not exist",
        ),
        ("GET", "/access/domains/else", {}, "domain 'else' does not exist"),
    ],
)
def test_operations_fail_with_proxmoxs_messages(
    api: Api, method: str, path: str, params: dict[str, str], message: str
) -> None:
    answer = api.ask(method, path, ROOT, **params)
    assert (answer.status_code, answer.json()["message"]) == (500, f"{message}\n")


def test_a_failed_change_changes_nothing(api: Api) -> None:
    root(api, "POST", "/access/groups", groupid="g")
    before = access_lines(api.cluster.access)
    given = {"path": "/vms", "roles": "PVEAuditor,No", "users": "clerk@pve"}
    assert api.ask("PUT", "/access/acl", ROOT, **given).status_code == 500
    assert api.ask("POST", "/access/users", ROOT, userid="x@pve", groups="g,no").status_code == 500
    assert access_lines(api.cluster.access) == before


def test_changes_are_lines_of_the_user_file(api: Api) -> None:
    root(api, "POST", "/access/groups", groupid="g", comment="a:b")
    root(api, "POST", "/access/users", userid="x@pve", groups="g", comment="Zoë", firstname="Z", expire=99, enable=0)
    root(api, "POST", "/access/roles", roleid="R", privs="VM.Audit VM.Clone")
    root(api, "PUT", "/access/roles/R", privs="VM.Backup", append=1)
    root(api, "POST", "/access/users/x@pve/token/tk", expire=7)
    root(
        api,
        "PUT",
        "/access/acl",
        path="vms//100/",
        roles="R",
        users="x@pve",
        groups="g",
        tokens="x@pve!tk",
        propagate=0,
    )
    assert "user:x@pve:0:99:Z:::Zo%C3%AB::" in lines(api, "user")
    assert "token:x@pve!tk:7:1::" in lines(api, "token")
    assert lines(api, "group") == ["group:g:x@pve:a%3Ab:"]
    assert "role:R:VM.Audit,VM.Backup,VM.Clone:" in lines(api, "role")
    assert "acl:0:/vms/100:@g,x@pve,x@pve!tk:R:" in lines(api, "acl")


def test_the_user_file_reads_back_as_it_was_written(api: Api) -> None:
    root(api, "POST", "/access/groups", groupid="g", comment="a:b %41")
    root(api, "POST", "/access/users", userid="x@pve", groups="g", comment="Zoë: 1", email="z@example.org")
    written = access_lines(api.cluster.access)
    copy = api.cluster.access.copy()
    apply_access_lines(copy, [line for line in written if not line.startswith("group:g")])
    assert [line for line in access_lines(copy) if "group:g" not in line] == [x for x in written if "group:g" not in x]


def test_a_deleted_user_leaves_no_token_membership_or_acl(api: Api) -> None:
    root(api, "POST", "/access/groups", groupid="g")
    root(api, "POST", "/access/users", userid="x@pve", groups="g", password="long-enough")
    root(api, "POST", "/access/users/x@pve/token/tk")
    root(api, "PUT", "/access/acl", path="/vms", roles="PVEAuditor", users="x@pve", tokens="x@pve!tk")
    root(api, "DELETE", "/access/users/x@pve")
    assert not [line for line in access_lines(api.cluster.access) if "x@pve" in line]
    assert "x@pve" not in api.cluster.access.passwords


def test_a_deleted_role_group_or_token_leaves_no_acl(api: Api) -> None:
    root(api, "POST", "/access/roles", roleid="R", privs="VM.Audit")
    root(api, "POST", "/access/groups", groupid="g")
    before = lines(api, "acl")
    root(api, "PUT", "/access/acl", path="/vms", roles="R", users="clerk@pve")
    root(api, "PUT", "/access/acl", path="/vms", roles="PVEAuditor", groups="g", tokens=CLERK)
    root(api, "DELETE", "/access/roles/R")
    root(api, "DELETE", "/access/groups/g")
    root(api, "DELETE", "/access/users/clerk@pve/token/tk")
    assert lines(api, "acl") == before


def test_root_cannot_be_deleted_but_loses_its_tokens(api: Api) -> None:
    root(api, "DELETE", "/access/users/root@pam")
    assert "root@pam" in api.cluster.access.users
    assert ROOT not in api.cluster.access.tokens


def test_a_new_token_shows_only_the_given_settings_and_as_texts(api: Api) -> None:
    assert root(api, "POST", "/access/users/clerk@pve/token/one")["info"] == {"privsep": 1}
    made = root(api, "POST", "/access/users/clerk@pve/token/two", privsep=0, expire=5, comment="c")
    assert made["info"] == {"privsep": "0", "expire": "5", "comment": "c"}
    assert made["full-tokenid"] == "clerk@pve!two"
    assert root(api, "GET", "/access/users/clerk@pve/token/two") == {"privsep": 0, "expire": 5, "comment": "c"}
    assert root(api, "PUT", "/access/users/clerk@pve/token/two", privsep=1)["privsep"] == "1"


def test_accounts_outlast_a_restart(api: Api) -> None:
    root(api, "POST", "/access/groups", groupid="g", comment="c")
    root(api, "POST", "/access/users", userid="x@pve", groups="g", comment="c", email="x@example.org", keys="k")
    root(api, "POST", "/access/users/x@pve/token/tk", comment="c")
    root(api, "PUT", "/access/acl", path="/vms", roles="PVEAuditor", groups="g")
    again = memory_cluster(api.directory)
    assert access_lines(again.access) == access_lines(api.cluster.access)
    assert again.access.tokens["x@pve!tk"].secret == api.cluster.access.tokens["x@pve!tk"].secret


def test_the_console_manages_users_and_groups(api: Api) -> None:
    console = Console(api.cluster)
    assert console.run(["pveum", "group", "add", "g", "--comment", "c"]).code == 0
    assert console.run(["pveum", "user", "add", "x@pve", "--groups", "g"]).code == 0
    assert console.run(["pveum", "usermod", "x@pve", "--comment", "y"]).code == 0
    assert console.run(["pveum", "group", "list"]).out == "g\n"
    assert "user:x@pve:1:0::::y::" in lines(api, "user")
    assert console.run(["pveum", "group", "delete", "g"]).code == 0
    assert console.run(["pveum", "user", "delete", "x@pve"]).code == 0


def test_the_console_prints_a_new_token_as_proxmox_s_tools_do(api: Api) -> None:
    console = Console(api.cluster)
    assert console.run(["pveum", "user", "add", "x@pve"]).code == 0
    secret = "00000000-0000-0000-0000-000000000000"
    printed = console.run(["pveum", "user", "token", "add", "x@pve", "one", "--privsep", "1"]).out
    assert printed.replace(api.cluster.access.tokens["x@pve!one"].secret, secret) == (
        "┌──────────────┬──────────────────────────────────────┐\n"
        "│ key          │ value                                │\n"
        "╞══════════════╪══════════════════════════════════════╡\n"
        "│ full-tokenid │ x@pve!one                            │\n"
        "├──────────────┼──────────────────────────────────────┤\n"
        '│ info         │ {"privsep":"1"}                      │\n'
        "├──────────────┼──────────────────────────────────────┤\n"
        f"│ value        │ {secret} │\n"
        "└──────────────┴──────────────────────────────────────┘\n"
    )
    as_json = console.run(["pveum", "user", "token", "add", "x@pve", "two", "--output-format", "json"]).out
    assert json.loads(as_json)["value"] == api.cluster.access.tokens["x@pve!two"].secret
    again = console.run(["pveum", "user", "token", "add", "x@pve", "two", "||", "echo", "it", "exists already"])
    assert (again.code, again.out) == (0, "it exists already\n")
