# Library: close the account of an agent to logins.
# Expects: nothing; $root, for the account of the current bundle.
#
# The agent can write all files of its home: a key in ~/.ssh/authorized_keys, programs for a systemd of its own. Whoever
# logs in to its account runs programs with its uid and without the confinement of its units. An expired account lets
# nobody in, by ssh, su, cron, at or a systemd of the account. Services run as an expired account nevertheless.
. ./agent/fail.sh

# Paddock's accounts have this comment, which only root can change. Others are a person's, and stay as they are.
is_account_of_paddock() { # ACCOUNT
    case "$(getent passwd "$1" | cut -d : -f 5)" in "Paddock agent "*) ;; *) return 1 ;; esac
}

# Print what lets others run programs as the account, beside the agent's units; one way a line.
ways_in() { # ACCOUNT
    shell=$(getent passwd "$1" | cut -d : -f 7)
    case "$shell" in */nologin | */false) ;; *) echo "its shell is ${shell:-/bin/sh}" ;; esac
    expires=$(getent shadow "$1" | cut -d : -f 8)
    [ "${expires:-0}" -ge 1 ] && [ "$expires" -lt "$(($(date +%s) / 86400))" ] || echo "it has not expired"
    [ ! -e "/var/lib/systemd/linger/$1" ] || echo "it lingers"
}

# End what a login to the account has started too. The agent's units are no part of that.
close_account() { # ACCOUNT
    is_account_of_paddock "$1" && [ -n "$(ways_in "$1")" ] || return 0
    command -v usermod >/dev/null || fail 75 "this machine has no usermod, and the account $1 is open to logins"
    nologin=/usr/sbin/nologin
    [ -x "$nologin" ] || nologin=/bin/false
    usermod --expiredate 1 --shell "$nologin" "$1"
    rm -f "/var/lib/systemd/linger/$1"
    [ ! -e "/run/systemd/users/$(id -u "$1")" ] || loginctl terminate-user "$1" || true
}

close_account_of_bundle() {
    [ -e "$root/current/bundle.env" ] || return 0
    # shellcheck source=/dev/null # written by Paddock
    account=$(OWNER='' && . "$root/current/bundle.env" && echo "${OWNER%:*}")
    [ -z "$account" ] || close_account "$account"
}
