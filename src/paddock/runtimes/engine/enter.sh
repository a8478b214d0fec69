# enter.sh ENGINE CONTAINER ROOT ARGV...: runs a program in the agent's container; root only as long as it takes to
# become the agent.
set -eu
engine=$1 container=$2 root=$3
shift 3
terminal=
[ ! -t 0 ] || terminal=--tty
exec "$engine" exec --interactive $terminal "$container" /bin/sh "$root/current/enter" "$@"
