# systemd/inspect.sh - report the state of the agent's units, and the confinement that was dropped
#
# Arguments: MANAGER AGENT ROOT; MANAGER is "system" or "user"
# Output: a report: process.NAME=STATE PID RESTARTS SINCE, dropped=WAY
manager=$1 agent=$2 root=$3
. ./agent/report.sh
. ./systemd/inspection.sh

inspect_units
report end ok
