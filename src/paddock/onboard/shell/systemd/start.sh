# systemd/start.sh - start the agent's units with the configuration that they have
#
# Arguments: MANAGER ROOT; MANAGER is "system" or "user"
set -eu
manager=$1 root=$2
. ./state/lock.sh
. ./systemd/manager.sh
. ./systemd/units.sh

[ -d "$root" ] || exit 0
lock_agent
# shellcheck disable=SC2046 # several units
set -- $(own_units)
[ $# = 0 ] || systemctl start "$@"
