# process/remove.sh - remove the agent's configuration and code, and keep the state
#
# Arguments: ROOT STORE AGENT STATE
set -eu
root=$1 STORE=$2 AGENT=$3 state=$4
. ./code/versions.sh

if [ -e "$state/.paddock/lease" ] && ! flock --shared --nonblock "$state/.paddock/lease" true; then
    echo "the agent is running ($(cat "$state/.paddock/holder")); end it first" >&2
    exit 75
fi
expect_no_state "$root"
rm -rf --one-file-system "$root"
rmdir "${root%/*}" 2>/dev/null || true # a state may be in it
drop_versions
