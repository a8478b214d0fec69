#!/bin/sh
# halt [PID]: ends the container, and then the client that its unit has started. A container that is only about to start
# cannot be stopped yet, so it is tried until the client has ended. An engine that does not run has no containers; to ask
# it would be to wait for it, while its own restart waits for us.
. "${0%/*}/bundle.env"

running() {
    [ -z "$SERVICE" ] || systemctl is-active --quiet "$SERVICE"
}

stop() {
    ! running || "$ENGINE" stop --time "$STOP_SECONDS" "$CONTAINER" >/dev/null 2>&1 ||
        ! "$ENGINE" container inspect "$CONTAINER" >/dev/null 2>&1
    stopped=$?
}

stop
while [ -n "${1-}" ] && kill -0 "$1" 2>/dev/null; do
    running || kill -KILL "$1"
    sleep 0.2
    stop
done
exit "$stopped"
