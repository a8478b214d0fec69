# engine/enter.sh - run a program in the agent's container
#
# Arguments: ENGINE CONTAINER ROOT ARGV...
#
# The program in the container starts as root, and becomes the agent's account at once.
set -eu
engine=$1 container=$2 root=$3
shift 3

terminal=
[ ! -t 0 ] || terminal=--tty
exec "$engine" exec --interactive $terminal "$container" /bin/sh "$root/current/enter" "$@"
