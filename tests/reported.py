"""What a machine reports of an agent, written as records NAME VALUE: the form of the recorded cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddock.base.errors import PaddockError
from paddock.plan.agent import AgentSeen, Ends
from paddock.plan.container import ContainerSeen, Image, ImagesSeen
from paddock.plan.namesakes import NamesakesSeen
from paddock.plan.version import Housing, Upgrade

Records = Sequence[tuple[str, str]]
_PLAIN = ("installer", "system", "answered", "before", "init", "secrets", "account", "said")
_TEXTS = {"bundle": "bundle_id", "state.newer": "state_version", "state.ran": "ran"}


def seen(pairs: Records) -> AgentSeen:
    """Return the report that these records describe."""
    values = dict(pairs)
    room = values.get("room", "").split()
    texts: dict[str, Any] = {_TEXTS.get(name, name): values[name] for name in (*_PLAIN, *_TEXTS) if name in values}
    return AgentSeen(
        packages=frozenset(_all(pairs, "package")),
        trees=frozenset(_all(pairs, "tree")),
        pending="pending" in values,
        state_of=values.get("state.agent"),
        state_at=values.get("state.at"),
        planted=values.get("state.planted"),
        forgotten=values.get("state.forgotten"),
        kept_aside=values.get("state.before"),
        unsettled=values.get("state.unsettled"),
        changed=_all(pairs, "state.changed"),
        upgrade=upgrade(_all(pairs, "upgrade")),
        housing=Housing(*values.get("housing", "").split(" ")[:2]),
        holder=values.get("holder"),
        account_open=_all(pairs, "account.open"),
        numbers=dict(value.split(" ", 1) for value in _all(pairs, "number")),
        room=(int(room[0]), int(room[1])) if room else None,
        limits=_all(pairs, "limit"),
        ends={value.split(" ")[0]: _ends(value) for value in _all(pairs, "ends")},
        container=_container(pairs),
        left={engine: sorted({*_all(pairs, f"left.{engine}")}) for engine in _all(pairs, "left")},
        namesakes=_namesakes(pairs),
        notes=_all(pairs, "note"),
        units={unit: state for unit, _, state in (value.partition(" ") for value in _all(pairs, "unit"))},
        **texts,
    )


def upgrade(lines: Sequence[str]) -> Upgrade | None:
    """Return the record of an upgrade that has these lines."""
    if not lines:
        return None
    values = dict(line.partition("=")[::2] for line in lines)
    try:
        return Upgrade(
            before=values["from"],
            after=values["to"],
            backup=values["backup"],
            where=values["where"],
            at=int(values["at"]),
            verified=values.get("verified") == "yes",
            back=values.get("back") == "yes",
            why=values.get("why", ""),
            housing=Housing(values.get("runtime", ""), values.get("base", "")),
        )
    except (KeyError, ValueError):
        raise PaddockError("the record of the last upgrade in the agent's state cannot be read") from None


def image(record: str) -> Image | None:
    """Return the image of a record ``ID DIGEST TIME NAME``."""
    words = ["" if word == "-" else word for word in record.split(" ")]
    return Image(*words) if len(words) == 4 and words[0] else None


def _all(pairs: Records, name: str) -> tuple[str, ...]:
    return tuple(value for record, value in pairs if record == name)


def _ends(value: str) -> Ends:
    _, restarts, how = [*value.split(" ", 2), "", ""][:3]
    return Ends(int(restarts) if restarts.isdecimal() else 0, how)


def _container(pairs: Records) -> ContainerSeen:
    values = dict(pairs)
    driver, _, live_restore = values.get("info", "").partition(" ")
    return ContainerSeen(
        engine=values.get("engine", "missing"),
        driver=driver,
        live_restore=live_restore == "true",
        images=frozenset(_all(pairs, "image")),
        image=ImagesSeen(*(image(values.get(f"image.{part}", "")) for part in ("present", "runs", "before"))),
        identity=values.get("container"),
        layer=tuple(sorted({*_all(pairs, "layer")})),
    )


def _namesakes(pairs: Records) -> NamesakesSeen:
    values = dict(pairs)
    return NamesakesSeen(
        former=values.get("former"),
        units=dict(value.split(" ", 1) for value in _all(pairs, "former.unit") if " " in value),
        state_of_former=values.get("state.former"),
        state_of_other=values.get("state.foreign"),
        forgotten=values.get("former.forgotten"),
        others=frozenset(_all(pairs, "other")),
    )
