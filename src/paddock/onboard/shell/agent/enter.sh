# enter.sh - run a program as the agent's account, with the agent's environment and secrets, in the agent's home
#
# Arguments: ROOT HOME USER GROUP ARGV...; USER and GROUP are empty where the agent has no account of its own
set -eu
umask 077
root=$1 home=$2 user=$3 group=$4
shift 4
. ./agent/environment.sh

exec 3<"$root/current/environment" 4<"$root/secrets.env" 5<"$root/generated.env"
set -- /bin/sh -c "$as_account" paddock "$home" "$@"
if [ -n "$user" ]; then
    setpriv=$(command -v setpriv)
    PATH=$SYSTEM_PATH HOME=$home USER=$user LOGNAME=$user
    set -- "$setpriv" --reuid "$user" --regid "$group" --init-groups --no-new-privs "$@"
    unset TZ TMPDIR XDG_RUNTIME_DIR
    # Like the units, with only the kinds of sockets that the rules for the agent's connections see. A bundle of an
    # earlier version does not have this program.
    [ ! -e "$root/current/families.py" ] || set -- python3 -I -S "$root/current/families.py" "$@"
fi
. ./agent/without_secrets.sh
without_secrets "$@"
