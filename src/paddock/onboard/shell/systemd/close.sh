# systemd/close.sh - close the account of the current bundle to logins, if Paddock made it
#
# Arguments: ROOT
#
# The agent keeps running. What a login to the account has started ends.
set -eu
root=$1
. ./state/lock.sh
. ./systemd/closing.sh

lock_agent
close_account_of_bundle
