#!/bin/sh
# halt.sh - stop the container, and then the client that its unit has started
#
# Arguments: [PID]; the client
# Runs on the machine, from the current bundle.
#
# A container that is about to start cannot be stopped yet, so this is repeated until the client has ended. An engine that
# does not run is not called: the call would wait for the engine, while the engine's restart waits for this unit. An engine
# that was killed leaves its containers running. They are ended without it, because the lease may be released as soon as
# this unit has ended.
client=${1-}
# shellcheck source=/dev/null # written by Paddock, in the bundle
. "${0%/*}/bundle.env"
id=$(cat "${0%/*}/../container" 2>/dev/null)

running() {
    [ -z "$SERVICE" ] || systemctl is-active --quiet "$SERVICE"
}

# Print the container's processes: the name of their cgroup contains the container's id.
processes() {
    [ -z "$id" ] || grep -lsF "$id" /proc/[0-9]*/cgroup | cut -d / -f 3
}

# shellcheck disable=SC2046 # several processes
end_without_engine() {
    # An engine that is stopping has sent the signal already.
    [ "$(systemctl is-active "$SERVICE")" = deactivating ] || kill -TERM $(processes) 2>/dev/null
    seconds=0
    while [ -n "$(processes)" ] && ! running; do
        [ "$seconds" -lt "$STOP_SECONDS" ] || kill -KILL $(processes) 2>/dev/null
        sleep 1
        seconds=$((seconds + 1))
    done
}

stop() {
    running || end_without_engine
    ! running || "$ENGINE" stop --time "$STOP_SECONDS" "$CONTAINER" >/dev/null 2>&1 ||
        ! "$ENGINE" container inspect "$CONTAINER" >/dev/null 2>&1
    stopped=$?
}

stop
while [ -n "$client" ] && kill -0 "$client" 2>/dev/null; do
    running || kill -KILL "$client"
    sleep 0.2
    stop
done
exit "$stopped"
