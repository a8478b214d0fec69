# systemd/observe.sh - report the packages, bundle, code trees, state and units of an agent
#
# Arguments: MANAGER ROOT STORE STATE_LINK AGENT PACKAGE...; MANAGER is "system" or "user"
# Output: a report
manager=$1 root=$2 store=$3 state_link=$4 agent=$5
shift 5
. ./report.sh
. ./observation.sh
. ./systemd/observation.sh
. ./engine/left.sh

observe_agent "$@"
observe_units
observe_left_containers
report end ok
