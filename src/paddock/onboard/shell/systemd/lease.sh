#!/bin/sh
# lease.sh - hold the lock on the state as long as this unit lives, and longer than this process
#
# Arguments: STATE AGENT
# Environment: NOTIFY_SOCKET; LISTEN_FDS is set when systemd passes the kept descriptor as number 3
#
# systemd keeps a copy of the locked descriptor (FileDescriptorStoreMax=) until this unit has stopped. The unit stops
# after the agent's units, which are ordered after it. So when this process dies, the state stays locked while the agent
# stops, and the next process of this unit gets the descriptor back.
set -eu
state=$1 agent=$2
. ./agent/identity.sh

lease=$state/.paddock/lease
if ! told=$(expect_identity "$state" "$agent" 2>&1); then
    echo "paddock: $told"
    exit 78
fi
agent=$(name_of "$agent")
kept=
[ "${LISTEN_FDS:-0}" = 0 ] || [ ! /proc/self/fd/3 -ef "$lease" ] || kept=yes
if [ -n "$kept" ]; then exec 9>&3; else exec 9>>"$lease"; fi
exec 3>&-
if ! flock --nonblock 9; then
    echo "paddock: the state of $agent is held by $(cat "$state/.paddock/holder")"
    exit 75
fi
echo "$(uname -n) since $(date -u +%FT%TZ)" >"$state/.paddock/holder"
# systemd-notify sends descriptors only since version 254. The sender must live until systemd has read the message, so it
# becomes the process that holds the lock. If the file was replaced, the kept descriptor is of the old file and is removed.
command -v python3 >/dev/null || {
    echo "paddock: the lease on the state of $agent needs python3, which is not in $PATH"
    exit 69
}
exec python3 -I -c 'import array, os, socket, sys
state, kept = sys.argv[1:]
address = os.environ["NOTIFY_SOCKET"]
systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
systemd.connect("\0" + address[1:] if address.startswith("@") else address)
if not kept:
    systemd.send(b"FDSTOREREMOVE=1\nFDNAME=lease")
    lock = array.array("i", [9])
    systemd.sendmsg([b"FDSTORE=1\nFDNAME=lease"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, lock)])
systemd.send(os.fsencode(f"READY=1\nSTATUS=holds {state}"))
os.execvp("sleep", ["sleep", "infinity"])' "$state" "$kept"
