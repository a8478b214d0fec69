# inspect.sh ROOT, after report.sh: reports each process that `paddock run` has started as NAME=STATE PID RESTARTS SINCE.
[ ! -e "$1/running" ] || while read -r name pid restarts since; do
    state=ended
    [ "$pid" = 0 ] || ! kill -0 "$pid" 2>/dev/null || state=active
    report "process.$name" "$state $pid $restarts $since"
done <"$1/running"
