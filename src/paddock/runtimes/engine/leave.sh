# leave.sh ROOT ENGINE CONTAINER, after images.sh and own.sh: removes a container from an engine that the agent has left, and images.
set -eu
ENGINE=$2 container=$3
case "$ENGINE" in docker | podman) ;; *) exit 78 ;; esac
drop_container "$ENGINE" "$container"
drop_images $("$ENGINE" images --format '{{.Repository}}:{{.Tag}}' localhost/paddock/archive)
