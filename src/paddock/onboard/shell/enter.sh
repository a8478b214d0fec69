# enter.sh - run a program beside an agent that has no supervisor, with its environment and secrets, in its home
#
# Arguments: ROOT HOME ARGV...
set -eu
umask 077
root=$1 home=$2
shift 2
# shellcheck disable=SC2016 # the agent's shell expands it
beside='set -eu
cd "$2"
set -a
. "$1/current/environment"
. "$1/secrets.env"
. "$1/generated.env"
set +a
shift 2
exec "$@"'
set -- /bin/sh -c "$beside" paddock "$root" "$home" "$@"
# The environment of the person may hold secrets.
for name in XDG_RUNTIME_DIR TMPDIR TZ LANG TERM LOGNAME USER HOME PATH; do
    eval "[ -z \"\${$name+set}\" ]" || eval "set -- \"$name=\$$name\" \"\$@\""
done
exec env -i "$@"
