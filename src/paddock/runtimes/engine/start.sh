#!/bin/sh
# start: process 1 of the container, as root, from the configuration in force. Makes the agent's account, gives it what
# it must own, and runs its processes as that account. They live and end together.
set -eu
trap 'exit 143' TERM INT # to process 1 a signal it does not handle does nothing
here=${0%/*}
root=${here%/*}
. "$here/bundle.env"
. "$here/account.sh"
. "$here/ownership.sh"

refuse() {
    echo "paddock: $1" >&2
    exit 78
}

# By hand, because not every distribution has useradd. What Paddock has written before bears a mark; whatever else has
# the name or the number is the distribution's own.
make_account() {
    shell=/bin/sh
    [ ! -x /bin/bash ] || shell=/bin/bash
    grep -v ':Paddock agent:' /etc/passwd >/etc/passwd.paddock
    grep -v ':!paddock:' /etc/group >/etc/group.paddock
    known=
    while IFS=: read -r name _ uid _; do
        case "$name:$uid" in
            "$USER_NAME:$USER_UID") known=yes ;;
            "$USER_NAME:"* | *":$USER_UID") refuse "$IMAGE has a user $name with uid $uid: give the agent another user:" ;;
        esac
    done </etc/passwd.paddock
    [ -n "$known" ] ||
        echo "$USER_NAME:*:$USER_UID:$USER_GID:Paddock agent:$ACCOUNT_HOME:$shell" >>/etc/passwd.paddock
    known=
    while IFS=: read -r name _ gid _; do
        case "$name:$gid" in
            *":$USER_GID") known=yes ;;
            "$USER_GROUP:"*) refuse "$IMAGE has a group $name with gid $gid: give the agent another user:" ;;
        esac
    done </etc/group.paddock
    [ -n "$known" ] || echo "$USER_GROUP:!paddock:$USER_GID:" >>/etc/group.paddock
    for file in passwd group; do
        cmp -s "/etc/$file.paddock" "/etc/$file" || cat "/etc/$file.paddock" >"/etc/$file"
        rm "/etc/$file.paddock"
    done
}

install_packages() {
    missing=
    for package in $PACKAGES; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || refuse "$IMAGE has no apt-get to install these with:$missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # several words
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } </dev/null >&2 || {
        echo "paddock: these could not be installed in the container:$missing" >&2
        exit 1
    }
}

allow_sudo() {
    rm -f /etc/sudoers.d/paddock
    [ -n "$SUDO" ] || return 0
    command -v sudo >/dev/null || refuse "$IMAGE has no sudo: add it to packages:"
    (umask 337 && echo "$USER_NAME ALL=(ALL:ALL) NOPASSWD: ALL" >/etc/sudoers.d/paddock)
}

run() {
    set -a
    . "$root/secrets.env"
    . "$root/generated.env"
    set +a
    as_agent /bin/sh "$1"
}

make_account
mkdir -p "$ACCOUNT_HOME"
OWNER=$USER_UID:$USER_GID
HOME_DIR=$ACCOUNT_HOME list=/dev/null
repair_ownership
HOME_DIR=$DATA list=$here/state/list
repair_ownership
install_packages
allow_sudo

pids=
trap 'kill -TERM $pids 2>/dev/null || true' TERM INT
for each in "$here"/processes/*; do
    run "$each" &
    pids="$pids $!"
done
# As process 1 a shell also reaps what the agent's processes leave behind, while it waits.
ended= code=0
while [ -z "$ended" ]; do
    code=0
    case ${pids# } in
        *' '*) sleep 1 & wait $! || true ;; # for whichever ends first; a shell can wait only for one it knows
        *) wait $pids || code=$? ;;
    esac
    for pid in $pids; do
        kill -0 "$pid" 2>/dev/null || ended=$pid
    done
done
case ${pids# } in
    *' '*) wait "$ended" || code=$? ;;
esac
kill -TERM $pids 2>/dev/null || true
for pid in $pids; do
    while kill -0 "$pid" 2>/dev/null; do
        wait "$pid" || true
    done
done
exit "$code"
