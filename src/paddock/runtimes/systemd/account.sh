# Shared: the account of the agent, made or found. A number that is another one here than in the file would give the
# state to somebody else.
have_account() {
    systemd-sysusers "$root/incoming/generation/sysusers.conf"
    for kind in "passwd account ${OWNER%:*} $USER_UID" "group group ${OWNER#*:} $GROUP_GID"; do
        set -- $kind
        found=$(getent "$1" "$3" | cut -d : -f 3)
        [ -n "$found" ] || fail 78 "there is no $2 $3 on the machine, and the file says user: {create: false}"
        [ -z "${4-}" ] || [ "$found" = "$4" ] || fail 78 "the $2 $3 has the number $found here, and the file says $4"
    done
}
