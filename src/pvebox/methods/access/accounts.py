"""API methods: the privileges of users and tokens."""

from __future__ import annotations

from pvebox.api.routes import Call, anybody, api
from pvebox.api.schema import Prop


@api.method(
    "GET",
    "/access/permissions",
    anybody,
    {"path": Prop(optional=True), "userid": Prop(optional=True)},
)
def permissions(call: Call) -> dict[str, dict[str, int]]:
    """Return the privileges of the caller by path."""
    who = call.text("userid") or call.user
    if who != call.user and not who.startswith(f"{call.user}!"):
        call.require("/access", "Sys.Audit")
    path = call.text("path")
    if path is not None:
        return {path: call.cluster.access.privileges(who, path)}
    return call.cluster.access.effective(who)
