# Library: run programs in the container as the agent's account.
# Expects: root in the container; $USER_NAME, $USER_UID, $USER_GID, $ACCOUNT_HOME, $CONFINED; perhaps $families.
# Library: the first program that runs as the agent's account.
# Expects: nothing.
# Sets: $as_account, a program for `sh -c` with arguments DIRECTORY ARGV...
# Library: the directories of programs that only root changes.
# Expects: nothing.
# Sets: $SYSTEM_PATH.
SYSTEM_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# Root opens the agent's environment and secrets as descriptors 3, 4 and 5, and drops its privileges. Only then are they
# evaluated: while a program runs as root, no PATH, LD_PRELOAD or HOME of the agent is set.
# shellcheck disable=SC2016 # the agent's shell expands it
as_account='set -eu
cd "$1"
shift
set -a
eval "$(cat <&3; echo; cat <&4; echo; cat <&5)"
set +a
exec "$@" 3<&- 4<&- 5<&-'

# The image's PATH may name directories that the agent can write to, so root does not use it.
IMAGE_PATH=$PATH
PATH=$SYSTEM_PATH

# Become a program that runs as the agent's account. Unless the agent has sudo, no process of it can become root again.
as_agent() { # DIRECTORY ARGV... 3<ENVIRONMENT 4<SECRETS 5<GENERATED
    groups=--clear-groups
    ! grep -q "^[^:]*:[^:]*:$USER_UID:" /etc/passwd || groups=--init-groups
    set -- PATH="$IMAGE_PATH" HOME="$ACCOUNT_HOME" USER="$USER_NAME" LOGNAME="$USER_NAME" /bin/sh -c "$as_account" paddock "$@"
    if command -v setpriv >/dev/null; then
        # shellcheck disable=SC2086 # several words
        exec ${families-} setpriv --reuid "$USER_UID" --regid "$USER_GID" $groups $CONFINED env "$@"
    fi
    # Isolated (-I -S): as root, nothing is imported from below a home.
    # shellcheck disable=SC2086 # several words
    exec ${families-} python3 -I -S -c 'import ctypes, os, sys
name, uid, gid, confined = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
prctl = ctypes.CDLL(None).prctl
if confined:
    for capability in range(64):
        prctl(24, capability, 0, 0, 0)  # out of the bounding set
os.initgroups(name, gid)
os.setgid(gid)
os.setuid(uid)
if confined:
    prctl(38, 1, 0, 0, 0)  # no new privileges
os.execvp("env", ["env", *sys.argv[5:]])' "$USER_NAME" "$USER_UID" "$USER_GID" "$CONFINED" "$@"
}
