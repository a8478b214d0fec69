"""API methods: authentication realms."""

from __future__ import annotations

import hashlib
from typing import Any

from pvebox.access.realms import REALMS
from pvebox.api import formats
from pvebox.api.errors import OperationError
from pvebox.api.routes import Call, api, having, world
from pvebox.api.schema import Prop


@api.method("GET", "/access/domains", world)
def domains(call: Call) -> list[dict[str, Any]]:
    """Return the realms. A login page needs them, so no login is necessary."""
    return [{"realm": name, "type": realm.type, "comment": realm.comment} for name, realm in REALMS.items()]


@api.method(
    "GET",
    "/access/domains/{realm}",
    having("/access/realm", "Realm.Allocate", "Sys.Audit", any_of=True),
    {"realm": Prop(format=formats.realm, max_length=32)},
)
def domain(call: Call) -> dict[str, Any]:
    """Return the settings of a realm."""
    name = str(call.params["realm"])
    realm = REALMS.get(name)
    if realm is None:
        raise OperationError(f"domain '{name}' does not exist")
    shown = {"type": realm.type, "comment": realm.comment}
    if realm.type == "pam":
        shown["plugin"] = "PVE::Auth::PAM"
    # The two built-in realms are not in domains.cfg, which is empty.
    return {**shown, "digest": hashlib.sha1(b"", usedforsecurity=False).hexdigest()}
