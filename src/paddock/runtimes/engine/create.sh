# engine/create.sh - create the agent's container
#
# Arguments: MANAGER ROOT ID REPLACE FORMERS; MANAGER is "system" or "user"; REPLACE is not empty if a container may be
# replaced
# Input: a tar of bundle/, secrets.env and secret-files/
#
# The old container, with its own layer, is removed only when the new one exists: if the new one cannot be created, the old
# one stays.
set -eu
umask 077
manager=$1 root=$2 id=$3 replace=$4 formers=$5
. ./receive.sh
. ./systemd/manager.sh
. ./systemd/prepare.sh
. ./systemd/units.sh
. ./engine/layered.sh

receive
if [ -z "$replace" ] && "$ENGINE" container inspect "$CONTAINER" >/dev/null 2>&1; then
    rm -rf "$root/incoming"
    fail 75 "there is a container $CONTAINER already"
fi
prepare
(umask 022 && mkdir -p "${STORE%/*}") # the container mounts it, even if there is no code yet
drop_container "$ENGINE" "$CONTAINER.new" "$AGENT" # of an interrupted run; an id has no dot
image=$IMAGE
[ -z "$TREE" ] || image=$(with_python "$IMAGE")
# The entrypoint of the image, one word a line.
"$ENGINE" image inspect --format '{{range .Config.Entrypoint}}{{println .}}{{end}}' "$image" >"$root/incoming/entrypoint"
set --
while IFS= read -r word; do
    [ -z "$word" ] || set -- "$@" "$word"
done <"$root/incoming/entrypoint"
sh "$root/incoming/bundle/create" "$CONTAINER.new" "$image" "$@" >/dev/null
stop_container_unit
drop_container "$ENGINE" "$CONTAINER" "$AGENT"
"$ENGINE" rename "$CONTAINER.new" "$CONTAINER"
rm -rf "$root/incoming"
