# engine/leave.sh - remove a container and its images from an engine that the agent no longer uses
#
# Arguments: ROOT ENGINE CONTAINER
set -eu
root=$1 ENGINE=$2 container=$3
. ./engine/images.sh
. ./engine/own.sh

case "$ENGINE" in docker | podman) ;; *) exit 78 ;; esac
drop_container "$ENGINE" "$container"
"$ENGINE" images --format '{{.Repository}}:{{.Tag}}' localhost/paddock/archive | drop_images
