# remove.sh ROOT CODE STATE: takes the agent's configuration and code away. The state stays.
set -eu
root=$1 code=$2 state=$3
if [ -e "$state/.paddock/lease" ] && ! flock --shared --nonblock "$state/.paddock/lease" true; then
    echo "the agent is running ($(cat "$state/.paddock/holder")); end it first" >&2
    exit 75
fi
rm -rf "$root" "$code"
