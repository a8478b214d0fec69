# Shared: from what was received, the account and the state. Can be done again at any time.
prepare() {
    have_account
    claim_state
    write_state_files
}
