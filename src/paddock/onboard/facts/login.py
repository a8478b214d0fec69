"""Try to log in to the agent's account with a key, as a stranger would after the agent has planted one in its home.

The key is made for this and thrown away. It is in a folder of root, not in the home: the agent can write there.
"""

from __future__ import annotations

import os
import pwd
import shlex
import tempfile
import time
from typing import Any

from paddock.onboard.facts.files import content
from paddock.onboard.facts.output import output

MADE = "Paddock agent "  # the beginning of the comment of an account that Paddock made, as in closing.sh
DAY = 24 * 3600  # seconds
SECONDS = 10  # for an attempt to log in
SSHD = ("/usr/sbin/sshd", "/usr/bin/sshd")
# Nothing of the account runs if sshd lets the key in: it has no sessions.
SERVER = ("AuthorizedKeysCommand=none", "PubkeyAuthentication=yes", "MaxSessions=0", "LogLevel=VERBOSE")
CLIENT = (
    *("BatchMode=yes", "IdentitiesOnly=yes", "PreferredAuthentications=publickey", "LogLevel=VERBOSE"),
    *("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "GlobalKnownHostsFile=/dev/null"),
)
DENIED = (" expired", "not allowed", "denied")  # the best reason first
Json = dict[str, Any]


def login(name: str) -> Json | None:
    """Return what decides whether somebody can log in to the account, and what sshd said to an attempt."""
    if not name:
        return None
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return None
    made = account.pw_gecos.startswith(MADE)
    return {
        "name": name,
        "made": made,
        "home": account.pw_dir,
        "shell": account.pw_shell,
        "expired": has_expired(name),
        "lingers": os.path.exists(f"/var/lib/systemd/linger/{name}"),
        "attempt": attempt(name) if made else None,
    }


def has_expired(name: str) -> bool:
    """Whether an account of this machine has expired: a field of its line counts the days since 1970."""
    for line in content("/etc/shadow").decode(errors="replace").split("\n"):
        fields = line.split(":")
        if fields[0] == name and len(fields) > 7 and fields[7].isdigit():
            return 1 <= int(fields[7]) < time.time() // DAY
    return False


def attempt(name: str) -> Json:
    """Log in through the machine's own sshd and its configuration, with a key that this sshd is told to accept."""
    sshd = next((path for path in SSHD if os.path.exists(path)), None)
    if sshd is None:
        return {"missing": "there is no sshd"}
    # sshd reads the file with the keys as the account, and only below folders that nobody else can write to.
    with tempfile.TemporaryDirectory(prefix="paddock-login-", dir="/run") as folder:
        os.chmod(folder, 0o755)  # noqa: S103  the private key in it is root's alone
        key = f"{folder}/key"
        try:
            made = output(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key])
            if made.code:
                return {"missing": f"no key could be made: {last_line(made.err)}"}
            os.chmod(f"{key}.pub", 0o644)
            server = [sshd, "-i", "-e", *options(*SERVER, f"AuthorizedKeysFile={key}.pub")]
            client = options(*CLIENT, f"ProxyCommand={shlex.join(server)}")
            ssh = ["ssh", "-F", "/dev/null", "-i", key, *client, f"{name}@paddock-login", "true"]
            tried = output(["timeout", "-k", "1", str(SECONDS), *ssh])
        except FileNotFoundError as error:
            return {"missing": f"there is no {error.filename}"}
    said = [line.strip() for line in tried.err.decode(errors="replace").split("\n")]
    denial = next((line for sign in DENIED for line in said if sign in line), "")
    accepted = any(line.startswith("Authenticated to ") for line in said)
    # Without its folder or with a broken configuration, sshd ends before it decides.
    return {"accepted": accepted, "answered": accepted or bool(denial), "said": (denial or last_line(tried.err))[:200]}


def options(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("-o", setting)]


def last_line(said: bytes) -> str:
    return said.decode(errors="replace").strip().rpartition("\n")[2].strip()
