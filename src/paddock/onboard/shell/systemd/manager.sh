# Library: the systemd instance that supervises the agent.
# Expects: $manager: "system", or "user" for the instance of an account, without root.
# Sets: $units, the directory of unit files; $passing_units, the same until the next boot; $target; $programs, a directory
# of the PATH.

# shellcheck disable=SC2034 # not every script uses all of them
case "$manager" in
    system)
        units=/etc/systemd/system passing_units=/run/systemd/system target=multi-user.target
        programs=/usr/local/bin
        ;;
    user)
        export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"
        units=$HOME/.config/systemd/user passing_units=$XDG_RUNTIME_DIR/systemd/user target=default.target
        programs=$HOME/.local/bin
        systemctl() { command systemctl --user "$@"; }
        journalctl() { command journalctl --user "$@"; }
        ;;
    *)
        echo "unknown manager: $manager" >&2
        exit 64
        ;;
esac
