"""A machine of the test's own: this one with other /etc, /opt, /srv and /var/lib, and a played systemd."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from paddock.guests import Guest, expect
from paddock.guests.local import LocalGuest
from paddock.recipes import recipe_for
from paddock.runtimes import runtime_for
from paddock.spec.models import AgentSpec, agent_from

FOLDERS: Final = {"etc": "/etc", "opt": "/opt", "srv": "/srv", "lib": "/var/lib"}
_SYSTEMCTL: Final = '#!/bin/sh\ncase "$1" in is-active) echo active ;; esac\nexit 0\n'

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts folders of its own, and makes accounts")


@dataclass(frozen=True)
class PrivateMachine:
    """Scripts run as root in a mount namespace; what they leave is below ``folder``."""

    folder: Path

    @classmethod
    def made_in(cls, folder: Path) -> PrivateMachine:
        for name in FOLDERS:
            (folder / name).mkdir(mode=0o755)
        shutil.copytree("/etc", folder / "etc", symlinks=True, dirs_exist_ok=True)
        for name in ("paddock", "systemd/system"):
            shutil.rmtree(folder / "etc" / name, ignore_errors=True)
        (folder / "bin").mkdir()
        (folder / "bin/systemctl").write_text(_SYSTEMCTL)
        (folder / "bin/systemctl").chmod(0o755)
        return cls(folder)

    def at(self, path: str) -> Path:
        """Where a path of the machine is."""
        name, top = next((name, top) for name, top in FOLDERS.items() if Path(path).is_relative_to(top))
        return self.folder / name / Path(path).relative_to(top)

    def inside(self, *argv: str) -> list[str]:
        """The argv that runs another one on the machine."""
        binds = "".join(f"mount --bind {self.folder}/{name} {top} && " for name, top in FOLDERS.items())
        path = f"{self.folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return ["unshare", "--mount", "sh", "-c", f'{binds}PATH={path} exec "$@"', "paddock", *argv]

    @property
    def guest(self) -> Guest:
        """A channel to the machine."""
        machine = self

        class OnTheMachine(LocalGuest):
            def run(self, argv: Sequence[str], *arguments: Any, **more: Any) -> Any:
                return super().run(machine.inside(*argv), *arguments, **more)

        return OnTheMachine()

    def run(self, *argv: str) -> str:
        """What a program prints that runs on the machine."""
        return subprocess.run(self.inside(*argv), check=True, capture_output=True, text=True).stdout

    def apply(self, name: str, *, home: str | None = None, **keys: Any) -> None:
        """What `up` does on the machine; with the home of an account, without root."""
        spec = spec_of(name, **keys)
        runtime = runtime_for(name, spec, Path(), home)
        workload = recipe_for(spec.kind).workload(spec, runtime.inside, "")
        bundle = runtime.bundle(workload, None, mounted=False)
        expect(LocalGuest(), "applying", self.inside(*runtime.apply(bundle.id)), stdin=bundle.archive({}, {}))

    def remove(self, name: str, *, home: str | None = None, **keys: Any) -> None:
        """What `down` does on the machine."""
        runtime = runtime_for(name, spec_of(name, **keys), Path(), home)
        expect(LocalGuest(), "removing", self.inside(*runtime.remove()))


def spec_of(name: str, *, state: str | None = None, **keys: Any) -> AgentSpec:
    """An agent with its state at any path, also at one that no file may have."""
    user = {"name": name, "uid": 10000 + sum(map(ord, name))}
    spec = agent_from({"kind": "service", "command": ["true"], "place": "here", "user": user, **keys})
    return spec.model_copy(update={"state": spec.state.model_copy(update={"path": state})})
