#!/bin/sh
# lease.sh STATE AGENT: holds the kernel's lock on the state for as long as this unit lives. The kernel frees the lock
# when its holder dies, however it dies.
set -eu
state=$1 agent=$2

if ! grep -qx "agent=$agent" "$state/.paddock/identity"; then
    echo "paddock: $state is not the state of $agent"
    exit 78
fi
exec 9>>"$state/.paddock/lease"
if ! flock --nonblock 9; then
    echo "paddock: the state of $agent is held by $(cat "$state/.paddock/holder")"
    exit 75
fi
echo "$(uname -n) since $(date -u +%FT%TZ)" >"$state/.paddock/holder"
systemd-notify --ready --status="holds $state"
exec sleep infinity
