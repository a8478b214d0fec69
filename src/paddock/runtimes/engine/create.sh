# create.sh ROOT ID [replace]: makes the agent's container from the bundle on stdin. One that is there goes, with its own
# layer, as soon as the new one is made: what cannot be made costs nothing.
root=$1 id=$2 replace=$3
receive
[ -n "$replace" ] || ! "$ENGINE" container inspect "$CONTAINER" >/dev/null 2>&1 ||
    fail 75 "there is a container $CONTAINER already"
prepare
(umask 022 && mkdir -p "${STORE%/*}") # mounted, also where there is no code yet
"$ENGINE" rm --force --volumes "$CONTAINER-new" >/dev/null 2>&1 || true # of a run that was cut off
# What the image itself would start; one word a line.
"$ENGINE" image inspect --format '{{range .Config.Entrypoint}}{{println .}}{{end}}' "$IMAGE" >"$root/incoming/entrypoint"
set --
while IFS= read -r word; do
    [ -z "$word" ] || set -- "$@" "$word"
done <"$root/incoming/entrypoint"
sh "$root/incoming/generation/create" "$CONTAINER-new" "$@" >/dev/null
for unit in $UNITS; do
    systemctl stop "$unit" 2>/dev/null || true # perhaps there is none yet
done
! "$ENGINE" container inspect "$CONTAINER" >/dev/null 2>&1 || "$ENGINE" rm --force --volumes "$CONTAINER" >/dev/null
"$ENGINE" rename "$CONTAINER-new" "$CONTAINER"
rm -rf "$root/incoming"
