# Shared: the first program that runs as the agent's account. Root opens the agent's environment and its secrets as
# descriptors 3, 4 and 5, and drops its privileges. They are evaluated only here, so that no PATH, LD_PRELOAD or HOME of
# the agent is in force while a program still runs as root.
SYSTEM_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# shellcheck disable=SC2016,SC2034 # expanded there; used by those who source this
as_account='set -eu
cd "$1"
shift
set -a
eval "$(cat <&3; echo; cat <&4; echo; cat <&5)"
set +a
exec "$@" 3<&- 4<&- 5<&-'
