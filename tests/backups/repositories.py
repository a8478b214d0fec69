"""Restic repositories for tests, whose key is cheap to derive.

`restic init` chooses a key that takes half a second of computing at each start of restic. Only this cost is changed
here: the repository and its password are the same for restic.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from built import built

_CHEAP: Final = {"N": 2, "r": 1, "p": 1}


def new_repository(folder: Path, password: str) -> Path:
    """Put an empty repository into a folder that does not exist, or that is empty."""
    return Path(shutil.copytree(prepared(password) / "repository", folder, dirs_exist_ok=True))


@cache
def prepared(password: str) -> Path:
    """Return a folder with an empty repository. Its name tells the version of restic and everything else of it."""
    version = subprocess.run(["restic", "version"], check=True, capture_output=True, text=True).stdout
    return built("restic", f"{version} {password} {Path(__file__).read_text()}", lambda new: _init(new, password))


def _init(folder: Path, password: str) -> None:
    environment = {**os.environ, "RESTIC_PASSWORD": password, "RESTIC_REPOSITORY": str(folder / "repository")}
    subprocess.run(["restic", "init", "--no-cache"], env=environment, check=True, stdout=subprocess.DEVNULL)
    if shutil.which("openssl"):  # without it, the tests are slower
        [key] = (folder / "repository/keys").iterdir()
        text = _cheaper(json.loads(key.read_text()), password.encode())
        key.unlink()
        (key.parent / hashlib.sha256(text).hexdigest()).write_bytes(text)


def _cheaper(key: dict[str, Any], password: bytes) -> bytes:
    """Return the file of a key, encrypted again with a key that costs little."""
    data = base64.b64decode(key["data"])
    start, content, end = data[:16], data[16:-16], data[-16:]
    derived = _derived(key, password)
    assert _sealed(derived, start, content) == end
    key |= _CHEAP
    cheap = _derived(key, password)
    content = _crypted(cheap, start, _crypted(derived, start, content))
    key["data"] = base64.b64encode(start + content + _sealed(cheap, start, content)).decode()
    return json.dumps(key).encode()


# How restic encrypts: https://restic.readthedocs.io/en/stable/design.html#keys-encryption-and-mac


def _derived(key: Mapping[str, Any], password: bytes) -> bytes:
    n, r, p = (key[name] for name in _CHEAP)
    memory = 256 * n * r + (1 << 20)
    return hashlib.scrypt(password, salt=base64.b64decode(key["salt"]), n=n, r=r, p=p, dklen=64, maxmem=memory)


def _crypted(derived: bytes, start: bytes, content: bytes) -> bytes:
    return _aes(content, "aes-256-ctr", "-iv", start.hex(), "-K", derived[:32].hex())


def _sealed(derived: bytes, start: bytes, content: bytes) -> bytes:
    """Return the code of Poly1305-AES."""
    r = int.from_bytes(derived[48:64], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    code = 0
    for at in range(0, len(content), 16):
        code = (code + int.from_bytes(content[at : at + 16] + b"\1", "little")) * r % ((1 << 130) - 5)
    added = int.from_bytes(_aes(start, "aes-128-ecb", "-nopad", "-K", derived[32:48].hex()), "little")
    return ((code + added) % (1 << 128)).to_bytes(16, "little")


def _aes(data: bytes, cipher: str, *options: str) -> bytes:
    command = ["openssl", "enc", f"-{cipher}", *options]
    return subprocess.run(command, input=data, check=True, stdout=subprocess.PIPE).stdout
