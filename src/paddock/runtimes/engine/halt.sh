#!/bin/sh
# halt [PID]: ends the container, and then the client that its unit has started. A container that is only about to start
# cannot be stopped yet, so it is tried until the client has ended. An engine that does not run is not asked: to ask it
# would be to wait for it, while its own restart waits for us. One that was killed leaves its containers running. They
# are ended without it, because the lease may be given up as soon as this unit has ended.
. "${0%/*}/bundle.env"
id=$(cat "${0%/*}/../container" 2>/dev/null)

running() {
    [ -z "$SERVICE" ] || systemctl is-active --quiet "$SERVICE"
}

# The container's processes: their cgroup is named by its id.
processes() {
    [ -z "$id" ] || grep -lsF "$id" /proc/[0-9]*/cgroup | cut -d / -f 3
}

end_without_engine() {
    # While it stops it has asked them already.
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
while [ -n "${1-}" ] && kill -0 "$1" 2>/dev/null; do
    running || kill -KILL "$1"
    sleep 0.2
    stop
done
exit "$stopped"
