# Shared: from what was received, the account, the state and its directories. Can be done again at any time.
prepare() {
    systemd-sysusers "$root/incoming/generation/sysusers.conf"
    claim_state
    systemd-tmpfiles --create "$root/incoming/generation/tmpfiles.conf"
}
