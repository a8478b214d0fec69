"""The programs of a template are checked before machines are made from it, and its packages are listed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import pytest

from hostile.ground import as_root, machine
from hostile.private_machine import PrivateMachine
from paddock.base.process import CommandFailed
from paddock.core.container import TemplateContents
from paddock.onboard.code import packages
from paddock.onboard.code.packages import FinishTemplate
from paddock.onboard.program.refusal import Refusal
from performed import performed

NOTHING = TemplateContents((), None)


@pytest.fixture
def template() -> Iterator[PrivateMachine]:
    """A machine that becomes a template. The last step would clean up this one."""
    with machine() as ground:
        found = PrivateMachine(ground)
        found.run("sh", "-c", "rm -rf /opt/paddock && touch /tmp/.left /root/.bash_history")
        yield found


@as_root
def test_a_template_with_all_programs_is_finished(template: PrivateMachine) -> None:
    manifest = NOTHING.put_into(template.guest, "/nowhere", ["sh", "ls"])
    assert template.at("/opt/paddock/.manifest").read_text() == manifest
    assert template.run("stat", "-c", "%a", "/opt/paddock", "/opt/paddock/.manifest").split() == ["755", "644"]
    assert not template.at("/tmp/.left").exists()
    assert not template.at("/root/.bash_history").exists()
    installed = template.run("sh", "-c", "! command -v dpkg-query >/dev/null || dpkg-query -W -f 'dpkg ${Package}\\n'")
    assert {*installed.splitlines()} >= {" ".join(line.split()[:2]) for line in manifest.splitlines()}
    assert bool(manifest) == bool(installed)


@as_root
def test_the_manifest_has_the_packages_of_the_code(template: PrivateMachine) -> None:
    packages_of_tree = "/opt/paddock/.store/t1/lib/python3.11/site-packages"
    for name in ("tiny_agent-1.2", "Aiohttp-3.14.5"):
        about = f"{packages_of_tree}/{name}.dist-info"
        name, version = name.replace("_", "-").rsplit("-", 1)
        template.run("mkdir", "-p", about)
        template.at(f"{about}/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    template.run("touch", "/opt/paddock/.store/t1/manifest")
    manifest = NOTHING.put_into(template.guest, "/nowhere", [])
    assert manifest.splitlines()[-2:] == ["pip Aiohttp 3.14.5", "pip tiny-agent 1.2"]


@as_root
def test_a_template_that_lacks_a_program_is_an_error(template: PrivateMachine) -> None:
    with pytest.raises(CommandFailed, match="there is no no-such-program: is a package missing under packages:"):
        NOTHING.put_into(template.guest, "/nowhere", ["sh", "no-such-program"])
    assert template.at("/tmp/.left").exists()


def test_the_programs_of_a_template_are_checked_before_anything_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> NoReturn:
        raise AssertionError("the template is being finished")

    monkeypatch.setattr(packages, "run", run)
    with pytest.raises(Refusal, match="there is no no-such-program: is a package missing under packages:"):
        performed(FinishTemplate(("sh", "no-such-program")))
    with pytest.raises(AssertionError, match="is being finished"):
        performed(FinishTemplate(("sh", "ls")))
