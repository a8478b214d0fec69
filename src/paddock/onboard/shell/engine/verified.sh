# engine/verified.sh - record that a bundle was verified, and with which image
#
# Arguments: ROOT ID AGENT
# Environment: ENGINE, CONTAINER
#
# The image before that one stays, for a rollback. Older ones are removed.
set -eu
root=$1 id=$2 agent=$3
. ./image/kept.sh
. ./engine/own.sh

drop_container "$ENGINE" "$CONTAINER.before" "$agent"
now=$(container_image "$CONTAINER")
if [ -n "$now" ]; then
    keep_image "$now"
    last=$(sed -n 1p "$root/images" 2>/dev/null || true)
    if [ "$now" != "$last" ]; then
        printf '%s\n' "$now" "$last" >"$root/images.new"
        mv "$root/images.new" "$root/images"
    fi
    drop_kept_images "$root"
fi
echo "$id" >"$root/answered"
rm -rf "$root/before"
