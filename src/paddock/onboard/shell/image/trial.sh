# engine/trial.sh - show in a throwaway container that the image can run programs as the agent's account
#
# Arguments: none
# Expects: the variables of bundle.env, assigned before this text
set -eu
. ./engine/account.sh
. ./engine/users.sh

make_account
as_agent / /bin/sh -c : 3</dev/null 4</dev/null 5</dev/null
