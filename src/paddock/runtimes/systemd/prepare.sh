# Shared: from what was received, the account and the state. Can be done again at any time.
prepare() {
    systemd-sysusers "$root/incoming/generation/sysusers.conf"
    claim_state
    furnish_state
}
