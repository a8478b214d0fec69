# claim_for_restore.sh - create the state of an agent, or accept its own, so that a backup can be unpacked into it
#
# Arguments: STATE AGENT MOUNTED ROOT STORE STATE_LINK
set -eu
umask 077
STATE=$1 AGENT=$2 MOUNTED=$3 root=$4 STORE=$5 STATE_LINK=$6
. ./state/claim_state.sh

claim_state
[ -d "$STATE/home" ] || mkdir -m 700 "$STATE/home"
