#!/bin/sh
# attach.sh - start the agent's container, and wait until it ends
#
# Arguments: none
# Runs on the machine, from the current bundle, as the main process of the container's unit.
#
# A container that someone has removed is created again. Software that was installed in it is lost.
set -eu
here=${0%/*}
# shellcheck source=/dev/null # written by Paddock, in the bundle
. "$here/bundle.env"
. ./engine/creation.sh
. ./agent/fail.sh

exists() {
    "$ENGINE" container inspect "$CONTAINER" >/dev/null 2>&1
}

if ! exists; then
    "$ENGINE" ps --quiet >/dev/null # an engine that does not run hides the container
    [ -n "$(image_id "$IMAGE")" ] ||
        fail 78 "paddock: the container $CONTAINER was removed, and its image $IMAGE too; \`paddock up\` creates both again"
    echo "paddock: the container $CONTAINER was removed; it is created again, without the software installed in it" >&2
    create_from "$here" "$CONTAINER"
elif ! is_ours "$ENGINE" "$CONTAINER" "$AGENT"; then
    fail 78 "paddock: the container $CONTAINER is not of this agent; rename or remove it, then run \`paddock up\`"
fi
if [ -n "$SERVICE" ]; then
    # halt.sh finds the container's processes by this id if the daemon does not run.
    "$ENGINE" container inspect --format '{{.Id}}' "$CONTAINER" >"$here/../container.new"
    mv "$here/../container.new" "$here/../container"
fi
exec "$ENGINE" start --attach "$CONTAINER"
