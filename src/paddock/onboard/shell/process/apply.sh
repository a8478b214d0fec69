# process/apply.sh - make a bundle the current one
#
# Arguments: ROOT ID FORMERS
# Input: a tar of bundle/, secrets.env and secret-files/
#
# Running processes keep the old bundle until `paddock run` is started again.
set -eu
umask 077
root=$1 id=$2 formers=$3
. ./agent/receive.sh
. ./state/claim_state.sh
. ./state/state.sh
. ./code/versions.sh

receive
claim_state
write_state_files
[ -z "$TREE" ] || keep_version "$TREE"
make_current
rm -f "$root/pending"
