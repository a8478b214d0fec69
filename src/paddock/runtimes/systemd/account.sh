# Shared: the account of the agent, made or found. A number that is another one here than in the file would give the
# state to somebody else.
have_account() {
    check_others_accounts
    # Where a number is somebody else's, sysusers would take another one.
    for kind in "passwd uid ${OWNER%:*} $USER_UID" "group gid ${OWNER#*:} ${GROUP_GID:-$USER_UID}"; do
        set -- $kind
        [ -n "${4-}" ] && ! getent "$1" "$3" >/dev/null && found=$(getent "$1" "$4") || continue
        fail 78 "the $2 $4 is that of ${found%%:*} on this machine: give the agent another user:"
    done
    systemd-sysusers "$root/incoming/bundle/sysusers.conf"
    for kind in "passwd account ${OWNER%:*} $USER_UID" "group group ${OWNER#*:} $GROUP_GID"; do
        set -- $kind
        found=$(getent "$1" "$3" | cut -d : -f 3)
        [ -n "$found" ] || fail 78 "there is no $2 $3 on the machine, and the file says user: {create: false}"
        [ -z "${4-}" ] || [ "$found" = "$4" ] || fail 78 "the $2 $3 has the number $found here, and the file says $4"
    done
}

# An account is for one agent: another one in it could read and change this one's memory. The configurations of others
# are root's.
check_others_accounts() {
    for other in "${root%/*}"/*/current/bundle.env; do
        name=${other%/current/bundle.env} && name=${name##*/}
        [ -e "$other" ] && [ "$name" != "$AGENT" ] || continue
        # Nothing of this agent's stands in for what the other one's configuration does not say.
        theirs=$(OWNER= USER_UID= GROUP_GID= && . "$other" && echo "$OWNER:$USER_UID:${GROUP_GID:-$USER_UID}")
        IFS=: read -r user group uid gid <<.
$theirs
.
        ! is_one passwd "${OWNER%:*}" "$USER_UID" "$user" "$uid" || fail_shared "the account ${OWNER%:*}"
        ! is_one group "${OWNER#*:}" "${GROUP_GID:-$USER_UID}" "$group" "$gid" || fail_shared "the group ${OWNER#*:}"
    done
}

is_one() { # passwd|group NAME NUMBER NAME NUMBER; the numbers are for what is not on the machine yet
    [ "$2" != "$4" ] || return 0
    one=$(getent "$1" "$2" | cut -d : -f 3) two=$(getent "$1" "$4" | cut -d : -f 3)
    [ -n "${one:-$3}" ] && [ "${one:-$3}" = "${two:-$5}" ]
}

fail_shared() { # WHAT
    fail 78 "$1 is that of the agent $name on this machine too, and each could read and change the other's memory: give \
$AGENT an account and a group of its own, user: {name: NAME, uid: 10001}; its files become that account's with \`paddock up\`"
}
