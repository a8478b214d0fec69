# systemd/observe.sh - report the packages, bundle, code trees, state and units of an agent
#
# Arguments: MANAGER ROOT STORE STATE_LINK STATE AGENT FORMERS PACKAGE...; MANAGER is "system" or "user"; FORMERS
# are ids, separated by blanks
# Output: a report
manager=$1 root=$2 store=$3 state_link=$4 state=$5 agent=$6 formers=$7
shift 7
. ./agent/report.sh
. ./agent/observation.sh
. ./systemd/observation.sh
. ./engine/left.sh

observe_agent "$@"
observe_units
observe_left_containers
report end ok
