# Library: create the account and the state for a received bundle.
# Expects: set -eu; umask 077; $root; the variables of bundle.env. May be done again at any time.
. ./state/claim_state.sh
. ./state/state.sh
. ./systemd/account.sh

prepare() {
    [ -z "$OWNER" ] || have_account # without an owner, the state belongs to the account that runs this script
    claim_state
    write_state_files
}
