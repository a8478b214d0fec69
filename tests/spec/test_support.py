"""Options of the file that Paddock does not support yet."""

from __future__ import annotations

import pytest

from cases import DATA
from paddock.errors import BadInput
from paddock.recipes import KINDS, load
from paddock.spec import support
from paddock.spec.models import PlaceSpec
from paddock.spec.names import keys, model_in
from paddock.spec.support import supported, unsupported

GOOD = DATA / "good.yaml"


def test_a_simple_file_is_supported() -> None:
    loaded = load(GOOD)
    assert unsupported(loaded.spec) == []
    assert supported(loaded) is loaded


@pytest.fixture(autouse=True)
def _own_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a list of the tests' own, because the real one gets shorter."""
    monkeypatch.setattr(support, "NOT_YET", {"machine.swap", "dashboard", "host.scope", "connectors.discord"})


@pytest.mark.parametrize(
    ("assignment", "location"),
    [
        ("agents.hermes.machine.swap=1G", ("agents", "hermes", "machine", "swap")),
        ("agents.hermes.dashboard=true", ("agents", "hermes", "dashboard")),
        ("agents.hermes.dashboard={port: 9000}", ("agents", "hermes", "dashboard")),
        ("agents.hermes.connectors.discord={allow: [1]}", ("agents", "hermes", "connectors", "discord")),
        ("places.here.host={scope: user}", ("places", "here", "host", "scope")),
    ],
)
def test_an_unsupported_option_is_reported_with_its_location(assignment: str, location: tuple[str, ...]) -> None:
    token = "agents.hermes.environment_files=[{env: T}]"
    loaded = load(GOOD, sets=(token, assignment))
    assert unsupported(loaded.spec) == [(location, "is not supported yet")]


def test_an_unsupported_option_with_its_default_value_is_allowed() -> None:
    assert unsupported(load(GOOD, sets=("agents.hermes.machine.swap=512M", "agents.hermes.dashboard=false")).spec) == []


def test_only_unsupported_options_of_the_selected_agents_are_refused() -> None:
    other = (
        "agents.other={kind: hermes, version: 0.19.0, place: here, dashboard: true, user: {name: other, uid: 10001}}"
    )
    loaded = load(GOOD, sets=(other,))
    assert supported(loaded, ["hermes"]) is loaded
    with pytest.raises(BadInput, match=r"agents\.other\.dashboard: is not supported yet"):
        supported(loaded)


def test_the_list_of_unsupported_options_names_existing_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for path in support.NOT_YET:
        assert any(exists(model, path.split(".")) for model in (PlaceSpec, *KINDS.models.values())), path
    for model in KINDS.models.values():
        for path in model.not_in_containers:
            assert exists(model, path.split(".")), path


def exists(model: object, path: list[str]) -> bool:
    for part in path:
        if not isinstance(model, type) or part not in (known := keys(model)):
            return False
        model = model_in(known[part].annotation)
    return True
