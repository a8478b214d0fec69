# Before the other parts, where an account's own systemd supervises, without root.
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"
units=$HOME/.config/systemd/user passing_units=$XDG_RUNTIME_DIR/systemd/user target=default.target
programs=$HOME/.local/bin
systemctl() { command systemctl --user "$@"; }
journalctl() { command journalctl --user "$@"; }
# All of the state is this account's, which is there already.
have_account() { :; }
