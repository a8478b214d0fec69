#!/bin/sh
# start_image.sh - process 1 of a container whose image brings the agent's code
#
# Arguments: ENTRYPOINT...; the image's own
# Runs in the container, as root, from the current bundle. It adds the bundle's environment and becomes the image's
# entrypoint with the agent's arguments. The image drops from root to the agent's account.
set -eu
here=${0%/*}
root=${here%/*}
. ./engine/limited.sh

check_limits confined
set -a
# shellcheck source=/dev/null # written by Paddock, in the bundle
. "$here/environment"
# shellcheck source=/dev/null # written by Paddock, beside the bundle
. "$root/secrets.env"
# shellcheck source=/dev/null # written by Paddock, beside the bundle
. "$root/generated.env"
set +a
for each in "$here"/processes/*; do
    # shellcheck source=/dev/null # written by Paddock, in the bundle
    . "$each"
done
