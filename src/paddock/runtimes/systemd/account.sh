# Shared: the account of the agent, made or found. A number that is another one here than in the file would give the
# state to somebody else.
have_account() {
    # Where a number is somebody else's, sysusers would take another one.
    for kind in "passwd uid ${OWNER%:*} $USER_UID" "group gid ${OWNER#*:} ${GROUP_GID:-$USER_UID}"; do
        set -- $kind
        [ -n "${4-}" ] && ! getent "$1" "$3" >/dev/null && found=$(getent "$1" "$4") || continue
        fail 78 "the $2 $4 is that of ${found%%:*} on this machine: give the agent another user:"
    done
    systemd-sysusers "$root/incoming/generation/sysusers.conf"
    for kind in "passwd account ${OWNER%:*} $USER_UID" "group group ${OWNER#*:} $GROUP_GID"; do
        set -- $kind
        found=$(getent "$1" "$3" | cut -d : -f 3)
        [ -n "$found" ] || fail 78 "there is no $2 $3 on the machine, and the file says user: {create: false}"
        [ -z "${4-}" ] || [ "$found" = "$4" ] || fail 78 "the $2 $3 has the number $found here, and the file says $4"
    done
}
