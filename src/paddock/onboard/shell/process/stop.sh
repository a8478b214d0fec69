# process/stop.sh - fail if the agent runs: only the person at its terminal can end it
#
# Arguments: STATE
set -eu
state=$1

if [ -e "$state/.paddock/lease" ] && ! flock --shared --nonblock "$state/.paddock/lease" true; then
    echo "the agent is running ($(cat "$state/.paddock/holder")); end it first" >&2
    exit 75
fi
