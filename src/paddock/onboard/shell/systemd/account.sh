# Library: create or find the account of the agent.
# Expects: $root, $AGENT, $OWNER (USER:GROUP), $USER_UID, $GROUP_GID.
. ./agent/fail.sh
. ./agent/names.sh
. ./systemd/closing.sh

# With another uid or gid than the file says, the state would belong to another account.
have_account() {
    check_others_accounts
    # If a uid or gid is taken, systemd-sysusers would choose another number.
    for kind in "passwd uid ${OWNER%:*} $USER_UID" "group gid ${OWNER#*:} ${GROUP_GID:-$USER_UID}"; do
        # shellcheck disable=SC2086 # several words, of which the last may be missing
        set -- $kind
        if [ -n "${4-}" ] && ! getent "$1" "$3" >/dev/null && found=$(getent "$1" "$4"); then
            fail 78 "${found%%:*} has the $2 $4 on this machine: give the agent another user:"
        fi
    done
    systemd-sysusers "$root/incoming/bundle/sysusers.conf"
    for kind in "passwd account ${OWNER%:*} $USER_UID" "group group ${OWNER#*:} $GROUP_GID"; do
        # shellcheck disable=SC2086 # several words, of which the last may be missing
        set -- $kind
        found=$(getent "$1" "$3" | cut -d : -f 3)
        [ -n "$found" ] || fail 78 "there is no $2 $3 on the machine, and the file says user: {create: false}"
        [ -z "${4-}" ] || [ "$found" = "$4" ] || fail 78 "the $2 $3 has the number $found here, and the file says $4"
    done
    # sysusers.conf has another shell: its text is older than this, and a change of it would restart every agent.
    close_account "${OWNER%:*}"
}

# An account is for one agent: another agent with the same account could read and change this agent's memory. The other
# agents' bundles belong to root.
check_others_accounts() {
    for other in "${root%/*}"/*/current/bundle.env; do
        name=${other%/current/bundle.env} && name=${name##*/}
        [ -e "$other" ] && [ "$name" != "$AGENT" ] || continue
        # Variables that the other bundle does not set must be empty, not this agent's.
        # shellcheck source=/dev/null # written by Paddock, in another agent's bundle
        theirs=$(OWNER='' USER_UID='' GROUP_GID='' && . "$other" && echo "$OWNER:$USER_UID:${GROUP_GID:-$USER_UID}")
        IFS=: read -r user group uid gid <<.
$theirs
.
        ! is_same passwd "${OWNER%:*}" "$USER_UID" "$user" "$uid" || fail_shared "the account ${OWNER%:*}"
        ! is_same group "${OWNER#*:}" "${GROUP_GID:-$USER_UID}" "$group" "$gid" || fail_shared "the group ${OWNER#*:}"
    done
}

is_same() { # passwd|group NAME NUMBER NAME NUMBER; the numbers are used for names that do not exist yet
    [ "$2" != "$4" ] || return 0
    one=$(getent "$1" "$2" | cut -d : -f 3) two=$(getent "$1" "$4" | cut -d : -f 3)
    [ -n "${one:-$3}" ] && [ "${one:-$3}" = "${two:-$5}" ]
}

fail_shared() { # ACCOUNT_OR_GROUP
    fail 78 "$1 is also used by $(in_words "$name") on this machine, and each could read and change the other's memory: give \
$(name_of "$AGENT") an account and a group of its own, user: {name: NAME, uid: 10001}; \`paddock up\` gives its files to that account"
}
