# hold.sh - hold the lease on a state until the input ends, so that no agent starts on it meanwhile
#
# Arguments: STATE
# Output: "held", once it is held
set -eu
state=$1

exec 9>>"$state/.paddock/lease"
if ! flock --nonblock 9; then
    echo "the state is in use: $(cat "$state/.paddock/holder")" >&2
    exit 75
fi
echo held
cat >/dev/null
