# enter.sh ROOT HOME USER GROUP ARGV..., after environment.sh: runs a program as the agent's account with the agent's
# environment, secrets included, in its home. USER is empty where the agent has no account of its own.
set -eu
umask 077
root=$1 home=$2 user=$3 group=$4
shift 4
exec 3<"$root/current/environment" 4<"$root/secrets.env" 5<"$root/generated.env"
set -- /bin/sh -c "$as_account" paddock "$home" "$@"
if [ -n "$user" ]; then
    setpriv=$(command -v setpriv)
    # Root's own environment may hold secrets, and is not for the agent.
    set -- env -i ${TERM+TERM="$TERM"} ${LANG+LANG="$LANG"} PATH="$SYSTEM_PATH" HOME="$home" USER="$user" LOGNAME="$user" \
        "$setpriv" --reuid "$user" --regid "$group" --init-groups --no-new-privs "$@"
fi
exec "$@"
