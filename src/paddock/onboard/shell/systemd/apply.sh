# systemd/apply.sh - make a bundle the current one, and start or restart the units that it changes
#
# Arguments: MANAGER ROOT ID FORMERS; MANAGER is "system" or "user"
# Input: a tar of bundle/, secrets.env and secret-files/
set -eu
umask 077
manager=$1 root=$2 id=$3 formers=$4
. ./systemd/bundle.sh

apply_bundle
