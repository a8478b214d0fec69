#!/bin/sh
# relock.sh - lock the files of the state again that the start of the agent's image gives to the agent
#
# Arguments: none
# Runs in the container, as root, from the current bundle, after the image's own hooks and before the agent. They may have
# written to the files too. They get the content of the bundle: it is never the agent's.
set -eu
here=${0%/*}
# shellcheck source=/dev/null # written by Paddock, in the bundle
. "$here/bundle.env"
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
tab=$(printf '\t')

# Without root on the machine, the files belong to the account of the agent, and only their mode locks them.
keeper=0:0
[ -n "$OWNER" ] || keeper=$USER_UID:$USER_GID

set_aside() { # PATH
    mv -T -- "$1" "$1.found-$(date +%s)"
}

# Make a directory root's and sticky, in one that is: the agent can create entries in it, and cannot replace this entry.
hold() { # DIRECTORY
    if [ -L "$1" ] || [ ! -d "$1" ]; then
        [ ! -L "$1" ] && [ ! -e "$1" ] || set_aside "$1"
        mkdir -m 700 -- "$1"
    fi
    chown -h root -- "$1"
    [ ! -L "$1" ] && [ -d "$1" ] || exit 78
    chgrp "$USER_GID" "$1"
    chmod 1770 "$1"
}

lock() { # PATH CONTENT
    rm -f -- "$1".paddock-??????
    new=$(mktemp -- "$1.paddock-XXXXXX")
    cat "$2" >"$new"
    chown "$keeper" "$new"
    chmod 444 "$new"
    if [ -L "$1" ] || { [ -e "$1" ] && [ ! -f "$1" ]; }; then set_aside "$1"; fi
    mv -fT -- "$new" "$1"
}

while IFS=$tab read -r verb source path <&3; do
    case "$verb" in
        hold) [ -z "$OWNER" ] || hold "$DATA/$path" ;;
        lock) lock "$DATA/$path" "$here/state/$source" ;;
    esac
done 3<"$here/state/list"
