# process/observe.sh - report the packages, bundle, code trees, state and processes of an agent
#
# Arguments: ROOT STORE STATE_LINK STATE AGENT FORMERS PACKAGE...; FORMERS are ids, separated by blanks
# Output: a report
root=$1 store=$2 state_link=$3 state=$4 agent=$5 formers=$6
shift 6
. ./agent/report.sh
. ./agent/observation.sh

observe_agent "$@"
if is_own "$own" && [ -e "$own/lease" ] && ! flock --shared --nonblock "$own/lease" true; then
    report unit "run active"
fi
report end ok
