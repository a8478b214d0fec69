# forget.sh STATE TRAIL AGENT: deletes the state of an agent, unless someone holds its lease.
set -eu
state=$1 trail=$2 agent=$3
grep -qx "agent=$agent" "$state/.paddock/identity" || {
    echo "$state is not the state of $agent" >&2
    exit 78
}
flock --nonblock "$state/.paddock/lease" rm -rf "$state" || {
    echo "the state is held by $(cat "$state/.paddock/holder")" >&2
    exit 75
}
rm -f "$trail"
