# create.sh ROOT ID [replace]: makes the agent's container from the bundle on stdin. One that is there goes, with its own
# layer, as soon as the new one is made: what cannot be made costs nothing.
root=$1 id=$2 replace=$3
: "${units:=/etc/systemd/system}"
receive
[ -n "$replace" ] || ! "$ENGINE" container inspect "$CONTAINER" >/dev/null 2>&1 ||
    fail 75 "there is a container $CONTAINER already"
prepare
(umask 022 && mkdir -p "${STORE%/*}") # mounted, also where there is no code yet
drop_container "$ENGINE" "$CONTAINER.new" # of a run that was cut off; no agent's name has a dot
# What the image itself would start; one word a line.
"$ENGINE" image inspect --format '{{range .Config.Entrypoint}}{{println .}}{{end}}' "$IMAGE" >"$root/incoming/entrypoint"
set --
while IFS= read -r word; do
    [ -z "$word" ] || set -- "$@" "$word"
done <"$root/incoming/entrypoint"
sh "$root/incoming/bundle/create" "$CONTAINER.new" "$@" >/dev/null
stop_container_unit
drop_container "$ENGINE" "$CONTAINER"
"$ENGINE" rename "$CONTAINER.new" "$CONTAINER"
rm -rf "$root/incoming"
