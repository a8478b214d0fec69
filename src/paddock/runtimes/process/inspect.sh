# inspect.sh ROOT: prints each process that `paddock run` has started as NAME=STATE PID RESTARTS SINCE.
[ ! -e "$1/running" ] || while read -r name pid restarts since; do
    state=ended
    [ "$pid" = 0 ] || ! kill -0 "$pid" 2>/dev/null || state=active
    echo "$name=$state $pid $restarts $since"
done <"$1/running"
