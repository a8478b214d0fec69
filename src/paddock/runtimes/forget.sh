# forget.sh STATE TRAIL AGENT, after receive.sh and top.sh: deletes the state of an agent, unless something holds its lease or is
# mounted in it. It is renamed first, in one step: from then on it is nobody's state, and what is left of it when this is cut
# off is found under that name and deleted the next time. The trail goes last, because it leads there.
state=$1 trail=$2 agent=$3
forgotten=${state%/*}/.paddock-forgotten-$agent

expect_nothing_mounted() { # DIRECTORY
    mounted=$(mounts_at "$1" | head -n 1)
    [ -z "$mounted" ] || fail 78 "$mounted is a mount, and Paddock deletes nothing through a mount: umount it first"
}

delete_forgotten() {
    expect_nothing_mounted "$forgotten"
    rm -rf --one-file-system -- "$forgotten"
}

expect_way_of_root "$state"
[ ! -e "$forgotten" ] || delete_forgotten
if [ -e "$state" ]; then
    is_own "$state/.paddock" && grep -qx "agent=$agent" "$state/.paddock/identity" ||
        fail 78 "$state is not the state of $agent"
    expect_nothing_mounted "$state"
    exec 9>>"$state/.paddock/lease"
    flock --nonblock 9 || fail 75 "the state is held by $(cat "$state/.paddock/holder")"
    mv -T -- "$state" "$forgotten"
    sync "${state%/*}"
    delete_forgotten
fi
rm -f -- "$trail"
