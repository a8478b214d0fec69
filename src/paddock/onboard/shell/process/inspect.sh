# process/inspect.sh - report each process that `paddock run` has started
#
# Arguments: ROOT
# Output: a report: process.NAME=STATE PID RESTARTS SINCE
root=$1
. ./agent/report.sh

[ ! -e "$root/running" ] || while read -r name pid restarts since; do
    state=ended
    [ "$pid" = 0 ] || ! kill -0 "$pid" 2>/dev/null || state=active
    report "process.$name" "$state $pid $restarts $since"
done <"$root/running"
report end ok
