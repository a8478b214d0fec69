# forget.sh - delete the state of an agent
#
# Arguments: STATE STATE_LINK AGENT
#
# A state whose lease is held, or in which something is mounted, is not deleted. The state is renamed first, in one
# step: from then on it is no state. If the script is interrupted, the next run deletes the renamed directory. The link to
# the state is deleted last, because it names the place of that directory.
set -eu
umask 077
state=$1 state_link=$2 agent=$3
. ./agent/fail.sh
. ./agent/identity.sh
. ./state/top.sh

forgotten=${state%/*}/.paddock-forgotten-$agent

expect_nothing_mounted() { # DIRECTORY
    mounted=$(mounts_at "$1" | head -n 1)
    [ -z "$mounted" ] || fail 78 "$mounted is a mount point, and Paddock deletes nothing through a mount: umount it first"
}

delete_forgotten() {
    expect_nothing_mounted "$forgotten"
    rm -rf --one-file-system -- "$forgotten"
}

expect_path_of_root "$state"
[ ! -e "$forgotten" ] || delete_forgotten
if [ -e "$state" ]; then
    is_own "$state/.paddock" && [ -e "$state/.paddock/identity" ] || fail 78 "$state is not a state of Paddock"
    expect_identity "$state" "$agent"
    expect_nothing_mounted "$state"
    exec 9>>"$state/.paddock/lease"
    flock --nonblock 9 || fail 75 "the state is held by $(cat "$state/.paddock/holder")"
    mv -T -- "$state" "$forgotten"
    sync "${state%/*}"
    delete_forgotten
fi
rm -f -- "$state_link"
