#!/bin/sh
# lease.sh STATE AGENT: holds the kernel's lock on the state for as long as this unit lives, and longer than this process.
# systemd keeps a copy of the locked descriptor (FileDescriptorStoreMax=) until the unit has stopped, and a unit stops
# after those that are ordered after it: the agent's. So when this process dies, however it dies, the state stays locked
# while the agent ends, and the next process of this unit gets the descriptor back as number 3 ($LISTEN_FDS).
set -eu
state=$1 agent=$2 lease=$1/.paddock/lease

if ! grep -qx "agent=$agent" "$state/.paddock/identity"; then
    echo "paddock: $state is not the state of $agent"
    exit 78
fi
kept=
[ "${LISTEN_FDS:-0}" = 0 ] || [ ! /proc/self/fd/3 -ef "$lease" ] || kept=yes
if [ -n "$kept" ]; then exec 9>&3; else exec 9>>"$lease"; fi
exec 3>&-
if ! flock --nonblock 9; then
    echo "paddock: the state of $agent is held by $(cat "$state/.paddock/holder")"
    exit 75
fi
echo "$(uname -n) since $(date -u +%FT%TZ)" >"$state/.paddock/holder"
# systemd-notify can send descriptors since version 254 only. The sender has to live until it was heard, so it becomes
# the process that holds the lock. A kept descriptor of another file is one whose file was replaced meanwhile.
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
