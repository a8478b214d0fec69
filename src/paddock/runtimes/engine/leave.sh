# leave.sh ROOT ENGINE CONTAINER, after images.sh: removes a container from an engine that the agent has left, and images.
set -eu
ENGINE=$2 container=$3
"$ENGINE" rm --force --volumes "$container" >/dev/null
drop_images $("$ENGINE" images --format '{{.Repository}}:{{.Tag}}' localhost/paddock/archive)
