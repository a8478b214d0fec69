# engine/inspect.sh - report the state of the agent's units, and the container's first process
#
# Arguments: MANAGER AGENT ROOT; MANAGER is "system" or "user"
# Environment: ENGINE, CONTAINER
# Output: a report: process.NAME=STATE PID RESTARTS SINCE, dropped=WAY, container.pid=PID
manager=$1 agent=$2 root=$3
. ./agent/report.sh
. ./systemd/inspection.sh

inspect_units
# The unit's own process only waits for the container.
! pid=$("$ENGINE" container inspect --format '{{.State.Pid}}' "$CONTAINER" 2>/dev/null) || report container.pid "$pid"
report end ok
