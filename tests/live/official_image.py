"""A stand-in for the official image of Hermes Agent, which cannot be pulled where there is no registry.

It has the layout, the account, the hooks of root and the supervisor of the official image: Debian's s6 in the place of
s6-overlay, and the real Hermes package, which makes the slots of its processes itself.
"""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from live.images import add, add_folder, base_root, saved_image, text_of_base
from paddock.demo import VERSION
from paddock.kinds.hermes.recipe import Hermes
from paddock.kinds.hermes.spec import HermesSpec
from paddock.runtimes.code import tree as codetree
from paddock.runtimes.code.tree import Interpreter

NAME: Final = "nousresearch/hermes-agent:stand-in"
_SCRIPTS: Final = Path(__file__).parent / "official"
_S6: Final = ("s6", "execline", "libs6-2.11", "libexecline2.9", "libskarnet2.13")
_VENV: Final = "opt/hermes/.venv"
_PACKAGES: Final = f"{_VENV}/lib/python3.11/site-packages"

# Where the scripts are in the image.
_PLACES: Final[Mapping[str, str]] = {
    "init": "init",
    "rc.init": "etc/s6-overlay/rc.init",
    "SIGTERM": "etc/s6-overlay/svscan/SIGTERM",
    "finish": "etc/s6-overlay/svscan/finish",
    "main-hermes-run": "etc/s6-overlay/services/main-hermes/run",
    "dashboard-run": "etc/s6-overlay/services/dashboard/run",
    "dashboard-finish": "etc/s6-overlay/services/dashboard/finish",
    "with-contenv": "command/with-contenv",
    "01-hermes-setup": "etc/cont-init.d/01-hermes-setup",
    "02-reconcile-profiles": "etc/cont-init.d/02-reconcile-profiles",
    "main-wrapper.sh": "opt/hermes/docker/main-wrapper.sh",
    "hermes": "opt/hermes/bin/hermes",
    "activate": f"{_VENV}/bin/activate",
    "hermes-program": f"{_VENV}/bin/hermes",
}
_SYSTEM: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CONFIG: Final = {
    "Entrypoint": ["/init", "/opt/hermes/docker/main-wrapper.sh"],
    "Env": [
        f"PATH=/opt/hermes/bin:/{_VENV}/bin:/opt/data/.local/bin:{_SYSTEM}",
        "HERMES_HOME=/opt/data",
        "HERMES_WRITE_SAFE_ROOT=/opt/data",
        "HERMES_DISABLE_LAZY_INSTALLS=1",
        f"HERMES_WEB_DIST=/{_PACKAGES}/hermes_cli/web_dist",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
    ],
    "Volumes": {"/opt/data": {}},
    "WorkingDir": "/opt/hermes",
}


def official_image(path: Path, version: str = VERSION) -> Path:
    """Write an archive of the image, like that of `docker save`."""
    code, s6 = path.with_name("code-layer.tar"), path.with_name("s6-layer.tar")
    _code_layer(code, version)
    _s6_layer(s6)
    base = base_root(path.with_name("base-root.tar.gz"))
    saved_image(path, NAME, base, s6, code, config=_CONFIG)
    for layer in (code, s6):
        layer.unlink()
    return path


def _s6_layer(path: Path) -> None:
    """Write Debian's s6, with links to its programs where s6-overlay has them."""
    folder = path.with_suffix(".packages")
    folder.mkdir()
    subprocess.run(["apt-get", "-qq", "download", *_S6], cwd=folder, check=True, capture_output=True)
    programs = set()
    with tarfile.open(path, "w") as layer:
        add_folder(layer, "command")
        for package in sorted(folder.iterdir()):
            unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True)
            plain = package.with_suffix(".tar")
            plain.write_bytes(unpacked.stdout)
            with tarfile.open(plain) as tar:
                for entry in tar:
                    # A folder would replace links of the root filesystem, such as /lib.
                    if not entry.isdir() and "/share/" not in entry.name:
                        layer.addfile(entry, tar.extractfile(entry) if entry.isreg() else None)
                        programs |= {entry.name} if "bin/s6-" in entry.name else set()
            plain.unlink()
            package.unlink()
        for program in sorted(programs):
            link = tarfile.TarInfo(f"command/{program.rpartition('/')[2]}")
            link.type, link.linkname = tarfile.SYMTYPE, program.removeprefix(".")
            layer.addfile(link)
    folder.rmdir()


def _above(place: str) -> list[PurePosixPath]:
    """The folders of a path that are not in Debian."""
    return [folder for folder in PurePosixPath(place).parents if str(folder) not in (".", "etc", "opt")]


def _code_layer(path: Path, version: str) -> None:
    agent = HermesSpec.model_validate({"kind": "hermes", "version": version, "place": "-", "extras": ["messaging"]})
    packages = codetree.build(Hermes().code(agent, Path()), Interpreter("/usr/bin/python3", "3.11", "x86_64"))
    with tarfile.open(path, "w") as layer:
        # An engine makes a folder that no entry names for root only.
        for folder in sorted(
            {str(above) for place in (*_PLACES.values(), f"{_PACKAGES}/all") for above in _above(place)}
        ):
            add_folder(layer, folder)
        for name, place in _PLACES.items():
            add(layer, place, (_SCRIPTS / name).read_bytes(), mode=0o755)
        add(layer, "opt/hermes/docker/entrypoint.sh", b"#!/bin/sh\n", mode=0o755)
        add(layer, "etc/passwd", text_of_base("./etc/passwd") + b"hermes:*:10000:10000::/opt/data:/bin/bash\n")
        add(layer, "etc/group", text_of_base("./etc/group") + b"hermes:*:10000:\n")
        add(layer, f"{_VENV}/pyvenv.cfg", b"home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11\n")
        for name in ("python", "python3"):
            link = tarfile.TarInfo(f"{_VENV}/bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/python3"
            layer.addfile(link)
        with tarfile.open(packages) as tar:
            for entry in tar:
                content = tar.extractfile(entry) if entry.isreg() else None
                entry.name = f"{_PACKAGES}/{entry.name}"
                layer.addfile(entry, content)
