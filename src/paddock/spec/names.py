"""Which keys there are, and which one someone may have meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any, Final, get_args

from pydantic import BaseModel

from paddock.spec.agent import KINDS, AgentSpec, Kind
from paddock.spec.models import Spec
from paddock.spec.tree import Location, Tree

# What people call things who come from elsewhere.
_ELSEWHERE: Final = {
    "authfile": "auth.from",
    "authfileforceoverwrite": "auth.overwrite",
    "addtosystempackages": "cli_on_path",
    "backend": "runtime",
    "createuser": "user.create",
    "dnsservers": "machine.dns",
    "enable": "enabled",
    "envfile": "environment_files",
    "extraargs": "service.args",
    "extraoptions": "container.options",
    "extrapackages": "packages",
    "extravolumes": "container.volumes",
    "mountpoint": "mounts",
    "onboot": "machine.start_on_boot",
    "protection": "state.pet",
    "restartsec": "service.restart_delay",
    "rootfs": "machine.disk",
    "statedir": "state.path",
    "unprivileged": "machine",
    "vmid": "machine.vmid",
}


def keys(model: type[BaseModel]) -> dict[str, Any]:
    """The keys of a part of the file, with their fields."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside ``X``, ``X | None``, ``list[X]`` or ``dict[str, X]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := model_in(each))), None)


def model_at(location: Location, tree: Tree) -> type[BaseModel] | None:
    """The model that says what may stand at this place of the file."""
    if location[:1] == ("agents",) and len(location) > 1:
        kind = tree.at(("agents", location[1], "kind"))
        model: Any = KINDS[Kind(kind)] if kind in list(Kind) else AgentSpec
        rest = location[2:]
    else:
        model, rest = Spec, location
    for part in rest:
        known = keys(model)
        if part in known:
            model = model_in(known[part].annotation)
            if model is None:
                return None
        # Otherwise the part is a name of someone's choice in a mapping, or a place in a list.
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def unknown_key(location: Location, tree: Tree) -> str:
    """The sentence about a key nobody knows."""
    key, above = location[-1], location[:-1]
    model = model_at(above, tree)
    sentence = f"unknown key {key!r}"
    if model is None:
        return sentence
    known = list(keys(model))
    owner = next((kind for kind, other in KINDS.items() if key in other.model_fields), None)
    if owner and len(location) == 3 and location[0] == "agents":
        return f"{sentence} for this kind; agents of kind {owner} have it"
    plain = re.sub(r"[^a-z]", "", key.lower())
    alike = {re.sub(r"[^a-z]", "", name.lower()): name for name in known}
    if plain in alike:
        return f"{sentence}; did you mean {alike[plain]!r}?"
    if location[0] == "agents" and len(location) > 2:
        elsewhere = _ELSEWHERE.get(plain) or next((path for path in _paths(model_at(location[:2], tree), key)), None)
        if elsewhere:
            return f"{sentence} here; did you mean {elsewhere!r} of the agent?"
    if near := difflib.get_close_matches(key, known, n=1):
        return f"{sentence}; did you mean {near[0]!r}?"
    return f"{sentence}; known here: {', '.join(known)}" if len(known) <= 12 else sentence


def _paths(model: type[BaseModel] | None, wanted: str, above: Location = ()) -> Iterator[str]:
    """Where else below a model there is a key of that name."""
    for name, field in keys(model).items() if model else ():
        if name == wanted and above:
            yield ".".join((*above, name))
        if len(above) < 2:
            yield from _paths(model_in(field.annotation), wanted, (*above, name))
