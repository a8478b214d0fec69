# enter.sh - run a program as the agent's account, with the agent's environment and secrets, in the agent's home
#
# Arguments: ROOT HOME USER GROUP ARGV...; USER and GROUP are empty where the agent has no account of its own
set -eu
umask 077
root=$1 home=$2 user=$3 group=$4
shift 4
# Library: the first program that runs as the agent's account.
# Expects: nothing.
# Sets: $as_account, a program for `sh -c` with arguments DIRECTORY ARGV...
# Library: the directories of programs that only root changes.
# Expects: nothing.
# Sets: $SYSTEM_PATH.
SYSTEM_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

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
# Library: start a program of an agent without the environment of the person or of root, which may hold secrets.
# Expects: nothing.

# Become a program that inherits only variables without secrets.
without_secrets() { # PROGRAM [ARGUMENT...]
    for name in XDG_RUNTIME_DIR TMPDIR TZ LANG TERM LOGNAME USER HOME PATH; do
        eval "[ -z \"\${$name+set}\" ]" || eval "set -- \"$name=\$$name\" \"\$@\""
    done
    exec env -i "$@"
}
without_secrets "$@"
