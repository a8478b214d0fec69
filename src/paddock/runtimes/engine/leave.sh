# engine/leave.sh - remove a container and its images from an engine that the agent no longer uses
#
# Arguments: ROOT ENGINE AGENT
set -eu
root=$1 ENGINE=$2 agent=$3
. ./engine/images.sh
. ./engine/own.sh

case "$ENGINE" in docker | podman) ;; *) exit 78 ;; esac
drop_container "$ENGINE" "paddock-$agent" "$agent"
"$ENGINE" images --format '{{.Repository}}:{{.Tag}}' localhost/paddock/archive | drop_images
