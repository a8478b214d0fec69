# Sourced in the container by `start` and `enter`, which run as root: everything of the agent's runs through as_agent.

# as_agent ARGV...: becomes the program, as the agent's account. Without sudo nothing it starts can become root again.
as_agent() {
    export HOME="$ACCOUNT_HOME" USER="$USER_NAME" LOGNAME="$USER_NAME"
    groups=--clear-groups
    ! grep -q "^[^:]*:[^:]*:$USER_UID:" /etc/passwd || groups=--init-groups
    if command -v setpriv >/dev/null; then
        # shellcheck disable=SC2086 # several words
        exec setpriv --reuid "$USER_UID" --regid "$USER_GID" $groups $CONFINED "$@"
    fi
    exec python3 -c 'import ctypes, os, sys
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
os.execvp(sys.argv[5], sys.argv[5:])' "$USER_NAME" "$USER_UID" "$USER_GID" "$CONFINED" "$@"
}
