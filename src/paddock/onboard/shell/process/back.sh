# process/back.sh - make the configuration and the secrets current again that the agent was last verified with
#
# Arguments: ROOT
# Environment: perhaps DISTRIBUTION, the package that brings the code
set -eu
umask 077
root=$1 formers=''
. ./agent/receive.sh
. ./state/claim_state.sh
. ./state/state.sh
. ./code/versions.sh

receive_verified
claim_state
write_state_files
[ -z "$TREE" ] || keep_version "$TREE"
make_current
rm -f "$root/pending"
