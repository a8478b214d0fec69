# engine/create.sh - create the agent's container
#
# Arguments: MANAGER ROOT ID REPLACE FORMERS; MANAGER is "system" or "user"; REPLACE is not empty if a container may be
# replaced
# Input: a tar of bundle/, secrets.env and secret-files/
#
# The old container, with its own layer, is stopped only when the new one exists, and kept until the agent was verified with
# the new one. An agent that goes back gets it again.
set -eu
umask 077
manager=$1 root=$2 id=$3 replace=$4 formers=$5
. ./agent/receive.sh
. ./systemd/manager.sh
. ./systemd/prepare.sh
. ./systemd/units.sh
. ./engine/creation.sh

receive
if [ -z "$replace" ] && "$ENGINE" container inspect "$CONTAINER" >/dev/null 2>&1; then
    rm -rf "$root/incoming"
    fail 75 "there is a container $CONTAINER already"
fi
prepare
(umask 022 && mkdir -p "${STORE%/*}") # the container mounts it, even if there is no code yet
drop_container "$ENGINE" "$CONTAINER.new" "$AGENT" # of an interrupted run; an id has no dot
identity=$(sed -n "s/.* --label 'paddock.identity=\([^']*\)'.*/\1/p" "$root/incoming/bundle/create")
if [ "$(label "$ENGINE" "$CONTAINER.before" paddock.identity)" = "$identity" ] &&
    [ "$(label "$ENGINE" "$CONTAINER" paddock.identity)" != "$identity" ]; then
    stop_container_unit
    put_back "$ENGINE" "$CONTAINER" "$AGENT"
    rm -rf "$root/incoming"
    exit
fi
create_from "$root/incoming/bundle" "$CONTAINER.new"
stop_container_unit
# Someone may have started it without its unit.
# shellcheck disable=SC2086 # several ids
! is_ours "$ENGINE" "$CONTAINER" "$AGENT" $formers || "$ENGINE" stop --time "$STOP_SECONDS" "$CONTAINER" >/dev/null
for former in $formers; do # of a renamed agent: its configuration is gone, so there is no way back to it
    drop_container "$ENGINE" "$CONTAINER" "$former"
done
keep_former "$ENGINE" "$CONTAINER" "$AGENT"
"$ENGINE" rename "$CONTAINER.new" "$CONTAINER"
rm -rf "$root/incoming"
