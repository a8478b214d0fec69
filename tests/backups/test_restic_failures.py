"""What users read when restic fails. The messages are those of restic 0.14, and of 0.17 where there is a code."""

from __future__ import annotations

import pytest

from paddock.backups.repository import NoRepository, failure
from paddock.base.errors import BadInput, PaddockError

ABSENT = """\
Fatal: unable to open config file: stat /srv/repository/config: no such file or directory
Is there a repository at the following location?
/srv/repository
"""
REFUSED = """\
Fatal: unable to open config file: Stat: Get "http://127.0.0.1:9/bucket/?location=": dial tcp 127.0.0.1:9: connect: \
connection refused
Is there a repository at the following location?
s3:http://127.0.0.1:9/bucket
"""
LOCKED = """\
unable to create lock in backend: repository is already locked exclusively by PID 4652 on vm by root (UID 0, GID 0)
lock was created at 2026-11-16 02:09:13 (1h2m8.187048794s ago)
storage ID 810c9f43
the `unlock` command can be used to remove stale locks
"""
FULL = "Fatal: unable to save snapshot: write /srv/repository/data/4d/4d4af1bb-tmp-42: no space left on device\n"
DAMAGED = "cannot dump file: decrypting blob be3ebbd5 failed: ciphertext verification failed\n"
BY_SSH = """\
subprocess ssh: ssh: connect to host 127.0.0.1 port 22: Connection refused
Fatal: unable to open repository at sftp:me@127.0.0.1:/x: unable to start the sftp session, error: EOF
"""
RCLONE = 'Fatal: unable to open repository at rclone:a:b: exec: "rclone": executable file not found in $PATH\n'

APPEND_ONLY = """\
Remove(<snapshot/9a90fde29a>) returned error, retrying after 15.394871241s: blob not removed, server response: 403 \
Forbidden (403)
unable to remove <snapshot/9a90fde29a> from the repository
blob not removed, server response: 403 Forbidden (403)
github.com/restic/restic/internal/backend/rest.(*Backend).Remove
\tgithub.com/restic/restic/internal/backend/rest/rest.go:399
"""


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (1, APPEND_ONLY, "the restic repository R lets nothing be removed: it is append-only"),
        (1, "Fatal: wrong password or no key found\n", "the password of the restic repository R is wrong"),
        (12, "", "the password of the restic repository R is wrong"),
        (1, ABSENT, "there is no restic repository in R"),
        (10, "", "there is no restic repository in R"),
        (1, LOCKED, "the restic repository R is locked by PID 4652 on vm, for 1h2m8s"),
        (11, "", "the restic repository R is locked"),
        (1, FULL, f"the restic repository R has no space left: {FULL[7:].strip()}"),
        (2, DAMAGED, f"the restic repository R is damaged: {DAMAGED.strip()}"),
        (1, REFUSED, f"the restic repository R cannot be reached: {REFUSED.splitlines()[0][7:]}"),
        (
            1,
            BY_SSH,
            "the restic repository R cannot be reached: ssh: connect to host 127.0.0.1 port 22: Connection refused",
        ),
        (1, RCLONE, "the restic repository R needs the program rclone"),
        (1, "Fatal: something else\nmore of it\n", "restic failed with code 1 on the repository R: something else"),
        (-9, "", "restic failed with code -9 on the repository R"),
    ],
)
def test_a_failure_is_one_line(code: int, said: str, words: str) -> None:
    assert failure("R", code, said).message == words


def test_only_a_repository_that_is_absent_is_created() -> None:
    assert isinstance(failure("R", 1, ABSENT), NoRepository)
    for said in (REFUSED, BY_SSH, LOCKED, FULL, DAMAGED):
        assert type(failure("R", 1, said)) is PaddockError
    assert isinstance(failure("R", 12, ""), BadInput)


def test_control_characters_of_a_server_are_shown_as_escapes() -> None:
    assert failure("R", 1, "Fatal: \x1b[31mred\n").message.endswith(": \\x1b[31mred")
