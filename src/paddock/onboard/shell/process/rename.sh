# process/rename.sh - give an agent another id: its configuration and code links, and its state's mark
#
# Arguments: ROOT STORE STATE_LINK STATE AGENT FORMER
#
# An agent that runs keeps its lease, and the rename is refused.
set -eu
umask 077
root=$1 STORE=$2 state_link=$3 state=$4 agent=$5 former=$6 MOUNTED=
. ./agent/renaming.sh

begin_rename
rename_state
rename_code
rename_configuration
