# engine/pull.sh - pull an image, and keep the image that the agent's container was created from
#
# Arguments: IMAGE
# Environment: ENGINE, CONTAINER
# Output: a report: before=IMAGE of the container, if there is one; after=IMAGE
#
# The container is not touched. Its image is named before the pull can take its name away.
set -eu
image=$1
. ./agent/report.sh
. ./image/layered.sh

before=$(container_image "$CONTAINER")
if [ -n "$before" ]; then
    keep_image "$before"
    report before "$(described_image "$before")"
fi
"$ENGINE" pull --quiet "$image"
after=$(image_id "$image")
keep_image "$after" "$(date -u +%Y-%m-%dT%H.%M.%SZ)"
! is_made_from "$before" "$after" || after=$before # the container has it, perhaps with a layer on it
report after "$(described_image "$after")"
report end ok
