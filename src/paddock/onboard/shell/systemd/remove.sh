# systemd/remove.sh - remove the agent's units, configuration and code, and keep the state
#
# Arguments: MANAGER ROOT STORE AGENT; MANAGER is "system" or "user"
set -eu
manager=$1 root=$2 STORE=$3 AGENT=$4
. ./systemd/removal.sh

remove_agent
