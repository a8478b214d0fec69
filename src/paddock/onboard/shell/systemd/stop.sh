# systemd/stop.sh - stop the agent's units, the lease last, and keep everything
#
# Arguments: MANAGER ROOT; MANAGER is "system" or "user"
set -eu
manager=$1 root=$2
. ./state/lock.sh
. ./systemd/manager.sh
. ./systemd/units.sh

[ -d "$root" ] || exit 0
lock_agent
# One call: systemd stops the units in the reverse of the order in which it starts them.
# shellcheck disable=SC2046 # several units
set -- $(own_units)
[ $# = 0 ] || systemctl stop "$@"
