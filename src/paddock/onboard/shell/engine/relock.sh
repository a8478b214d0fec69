#!/bin/sh
# relock.sh - lock the files of the state again that the start of the agent's image gives to the agent
#
# Arguments: none
# Runs in the container, as root, from the current bundle, after the image's own hooks and before the agent.
#
# The hooks may have written to the files too. They get the content of the bundle: it is never the agent's.
set -eu
here=${0%/*}
root=${here%/*}
# shellcheck source=/dev/null # written by Paddock, in the bundle
. "$here/bundle.env"
. ./state/state.sh

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# Without root on the machine, the files belong to the account of the agent, and only their mode locks them.
keeper=0:0
[ -n "$OWNER" ] || keeper=$USER_UID:$USER_GID
[ -z "$OWNER" ] || OWNER=$USER_UID:$USER_GID # the image may have other names

lock_again() { # PATH CONTENT
    new=$(new_beside "$1")
    cat "$2" >"$new"
    chown "$keeper" "$new"
    chmod 444 "$new"
    set_aside "$1"
    mv -fT -- "$new" "$1"
}

while IFS=$tab read -r verb source path <&3; do
    case "$verb" in
        hold) [ -z "$OWNER" ] || make_and_hold "$DATA/$path" ;;
        lock) lock_again "$DATA/$path" "$here/state/$source" ;;
    esac
done 3<"$here/state/list"
