# engine/remove.sh - remove the agent's unit, configuration, code and container, and keep the state
#
# Arguments: MANAGER ROOT STORE AGENT; MANAGER is "system" or "user"
# Environment: ENGINE, CONTAINER
#
# Software that was installed in the container is lost.
set -eu
manager=$1 root=$2 STORE=$3 AGENT=$4
. ./systemd/removal.sh
. ./image/images.sh
. ./image/layered.sh

images_before=$(images_named)
remove_agent
if command -v "$ENGINE" >/dev/null; then
    "$ENGINE" ps --quiet >/dev/null # if the engine does not run, this fails with the engine's own message
    drop_container "$ENGINE" "$CONTAINER" "$AGENT"
    drop_container "$ENGINE" "$CONTAINER.new" "$AGENT"
    drop_container "$ENGINE" "$CONTAINER.before" "$AGENT"
    drop_layer "$CONTAINER" "$AGENT"
    echo "$images_before" | drop_images
    drop_kept_images "$root"
fi
