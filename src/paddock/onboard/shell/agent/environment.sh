# Library: the first program that runs as the agent's account.
# Expects: nothing.
# Sets: $as_account, a program for `sh -c` with arguments DIRECTORY ARGV...
. ./code/system_path.sh

# Root opens the agent's environment and secrets as descriptors 3, 4 and 5, and drops its privileges. Only then are they
# evaluated: while a program runs as root, no PATH, LD_PRELOAD or HOME of the agent is set.
# shellcheck disable=SC2016 # the agent's shell expands it
as_account='set -eu
cd "$1"
shift
set -a
eval "$(cat <&3; echo; cat <&4; echo; cat <&5)"
set +a
exec "$@" 3<&- 4<&- 5<&-'
