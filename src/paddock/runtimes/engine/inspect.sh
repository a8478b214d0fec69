# After systemd's part: the unit's own process only waits for the container, whose first one this is.
! pid=$("$ENGINE" container inspect --format '{{.State.Pid}}' "$CONTAINER" 2>/dev/null) || report container.pid "$pid"
