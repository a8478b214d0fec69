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
# Library: the record in a state of the agent that it belongs to.
# Expects: nothing. .paddock must be known to be Paddock's own directory (top.sh).
# Library: end the script with a message.
# Expects: nothing.

fail() { # CODE MESSAGE
    printf '%s\n' "$2" >&2 # the echo of some shells expands backslashes, and an agent may have chosen the text
    exit "$1"
}
# Library: the agent that an id names.
# Expects: nothing. An id is PROJECT_NAME. What Paddock 0.1 deployed has the name alone.

name_of() { # ID
    echo "${1#*_}"
}

in_words() { # ID
    case "$1" in
        *_*) echo "${1#*_} of project ${1%%_*}" ;;
        *) echo "$1, which has no project" ;;
    esac
}

# Version 1, of Paddock 0.1, has no line for the version, and names the agent without a project.
identity_version() { # STATE
    version=$(sed -n 's/^version=//p' "$1/.paddock/identity")
    echo "${version:-1}"
}

is_newer() { # STATE: whether a newer Paddock wrote the record
    case "$(identity_version "$1")" in 1 | 2) return 1 ;; esac
}

identity_of() { # STATE: print the id of its agent
    sed -n 's/^agent=//p' "$1/.paddock/identity"
}

# Accept only a state of this agent.
expect_identity() { # STATE ID
    ! is_newer "$1" || fail 78 "a newer Paddock wrote $1/.paddock/identity; use that version of Paddock or a newer one"
    [ "$(identity_of "$1")" = "$2" ] || fail 78 "$1 is the state of another agent: $(in_words "$(identity_of "$1")")"
}

write_identity() { # STATE ID [UUID]; under umask 077
    mkdir -p "$1/.paddock"
    printf 'version=2\nagent=%s\nid=%s\n' "$2" "${3:-$(cat /proc/sys/kernel/random/uuid)}" >"$1/.paddock/identity.new"
    sync "$1/.paddock/identity.new"
    mv "$1/.paddock/identity.new" "$1/.paddock/identity"
}

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
