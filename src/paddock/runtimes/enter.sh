# enter.sh ROOT HOME ARGV...: runs a program with the agent's environment, secrets included, in its home.
set -eu
umask 077
root=$1 home=$2
shift 2
set -a
. "$root/current/environment"
. "$root/secrets.env"
. "$root/generated.env"
set +a
cd "$home"
exec "$@"
