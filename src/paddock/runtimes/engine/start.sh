#!/bin/sh
# start: process 1 of the container, as root, from the configuration in force. Makes the agent's account, gives it what
# it must own, and runs its processes as that account. They live and end together.
set -eu
trap 'exit 143' TERM INT # to process 1 a signal it does not handle does nothing
here=${0%/*}
root=${here%/*}
. "$here/bundle.env"
. "$here/account.sh"
. "$here/users.sh"
. "$here/ownership.sh"

install_packages() {
    missing=
    for package in $PACKAGES; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || refuse "the image has no apt-get to install these with:$missing"
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
    command -v sudo >/dev/null || refuse "the image has no sudo: add it to packages:"
    (umask 337 && echo "$USER_NAME ALL=(ALL:ALL) NOPASSWD: ALL" >/etc/sudoers.d/paddock)
}

run() {
    as_agent / /bin/sh "$1" 3</dev/null 4<"$root/secrets.env" 5<"$root/generated.env"
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
