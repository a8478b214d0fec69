# create.sh ROOT ID: makes the agent's container from the bundle on stdin. One that is there goes, with its own layer.
root=$1 id=$2
receive
prepare
for unit in $UNITS; do
    systemctl stop "$unit" 2>/dev/null || true # perhaps there is none yet
done
"$ENGINE" rm --force --volumes "$CONTAINER" >/dev/null 2>&1 || true
for folder in $FOLDERS; do
    [ -d "$folder" ] || fail 78 "there is no directory $folder on this machine to mount"
done
# What the image itself would start; one word a line.
"$ENGINE" image inspect --format '{{range .Config.Entrypoint}}{{println .}}{{end}}' "$IMAGE" >"$root/incoming/entrypoint"
set --
while IFS= read -r word; do
    [ -z "$word" ] || set -- "$@" "$word"
done <"$root/incoming/entrypoint"
sh "$root/incoming/generation/create" "$@" >/dev/null
rm -rf "$root/incoming"
