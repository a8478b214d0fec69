#!/bin/sh
# start.sh - process 1 of the container: create the agent's account, and run the agent's processes as that account
#
# Arguments: none
# Runs in the container, as root, from the current bundle. When one process ends, all are ended.
set -eu
trap 'exit 143' TERM INT # the kernel ignores a signal that process 1 does not handle
here=${0%/*}
root=${here%/*}
# shellcheck source=/dev/null # written by Paddock, in the bundle
. "$here/bundle.env"
. ./account.sh
. ./limited.sh
. ./users.sh
# Library: give the files of the agent's home to the agent.
# Expects: $HOME_DIR, $OWNER (USER:GROUP), $list, which names the entries that stay root's.
tab=$(printf '\t')

# Never follow a link: the agent can replace an entry between find and chown. Files with several hard links and mount
# points keep their owner, because they may be outside the home.
repair_ownership() {
    set -- "$HOME_DIR" -xdev
    while read -r _ _ _ _ mounted _; do
        case "$mounted" in "$HOME_DIR"/*) set -- "$@" ! -path "$mounted" ;; esac
    done </proc/self/mountinfo
    while IFS=$tab read -r verb _ path; do
        case "$verb $path" in
            "hold .") set -- "$@" ! -path "$HOME_DIR" ;;
            hold\ * | lock\ *) set -- "$@" ! -path "$HOME_DIR/$path" ;;
        esac
    done <"$list"
    find "$@" ! -user "${OWNER%:*}" \( -type d -o -links 1 \) -execdir chown -h "$OWNER" -- {} +
}
. ./package_manager.sh

have_packages() {
    missing=
    for package in $PACKAGES; do
        has_package "$package" || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    [ "$(installer)" != none ] || refuse "the image has neither apt-get nor dnf to install these packages with:$missing"
    # shellcheck disable=SC2086 # several packages
    install_packages $missing || {
        echo "paddock: these packages could not be installed in the container:$missing" >&2
        exit 1
    }
}

allow_sudo() {
    rm -f /etc/sudoers.d/paddock
    [ -n "$SUDO" ] || return 0
    command -v sudo >/dev/null || refuse "the image has no sudo: add sudo to packages:"
    (umask 337 && echo "$USER_NAME ALL=(ALL:ALL) NOPASSWD: ALL" >/etc/sudoers.d/paddock)
}

# Whoever may use the socket of an engine is root on the machine. The file gives it to the agent; its group makes it usable.
join_sockets() {
    for socket in $SOCKETS; do
        [ -S "$socket" ] || refuse "$socket is no socket on this machine: correct container.volumes"
        gid=$(stat -c %g "$socket")
        # The group root would give more than the socket. `verify` says that the agent cannot use it.
        [ "$gid" = 0 ] || echo "paddock-$gid:!paddock:$gid:$USER_NAME" >>/etc/group
    done
}

run() { # PROCESS
    as_agent / /bin/sh "$1" 3</dev/null 4<"$root/secrets.env" 5<"$root/generated.env"
}

check_limits
find_families
make_account
join_sockets
mkdir -p "$ACCOUNT_HOME"
OWNER=$USER_UID:$USER_GID
HOME_DIR=$ACCOUNT_HOME list=/dev/null
repair_ownership
HOME_DIR=$DATA list=$here/state/list
repair_ownership
have_packages
allow_sudo
: >/dev/shm/paddock-prepared # `up` waits for it

pids=
trap 'kill -TERM $pids 2>/dev/null || true' TERM INT
for each in "$here"/processes/*; do
    run "$each" &
    pids="$pids $!"
done
# While process 1 waits, it also reaps orphaned processes of the agent.
ended='' code=0
while [ -z "$ended" ]; do
    code=0
    # shellcheck disable=SC2086 # one process, after a blank
    case ${pids# } in
        *' '*) sleep 1 & wait $! || true ;; # a shell cannot wait for whichever of several processes ends first
        *) wait $pids || code=$? ;;
    esac
    for pid in $pids; do
        kill -0 "$pid" 2>/dev/null || ended=$pid
    done
done
case ${pids# } in
    *' '*) wait "$ended" || code=$? ;;
esac
# shellcheck disable=SC2086 # several processes
kill -TERM $pids 2>/dev/null || true
for pid in $pids; do
    while kill -0 "$pid" 2>/dev/null; do
        wait "$pid" || true
    done
done
exit "$code"
