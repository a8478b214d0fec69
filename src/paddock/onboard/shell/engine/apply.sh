# engine/apply.sh - make a bundle the current one, restart its container, and remove images that no bundle names
#
# Arguments: MANAGER ROOT ID FORMERS; MANAGER is "system" or "user"
# Input: a tar of bundle/, secrets.env and secret-files/
set -eu
umask 077
manager=$1 root=$2 id=$3 formers=$4
. ./systemd/bundle.sh
. ./image/images.sh

images_before=$(images_named)
apply_bundle
images_after=$(images_named)
echo "$images_before" | while IFS= read -r image; do
    echo "$images_after" | grep -qxF -- "$image" || echo "$image"
done | drop_images
