# engine/leave.sh - remove a container and its images from an engine that the agent no longer uses
#
# Arguments: ROOT ENGINE AGENT FORMERS; FORMERS are ids, separated by blanks
set -eu
root=$1 ENGINE=$2 agent=$3 formers=$4
. ./image/images.sh
. ./image/layered.sh

case "$ENGINE" in docker | podman) ;; *) exit 78 ;; esac
for id in $agent $formers; do
    drop_container "$ENGINE" "paddock-$id" "$id"
    drop_container "$ENGINE" "paddock-$id.before" "$id"
    drop_layer "paddock-$id" "$id"
done
"$ENGINE" images --format '{{.Repository}}:{{.Tag}}' localhost/paddock/archive | drop_images
drop_kept_images "$root"
