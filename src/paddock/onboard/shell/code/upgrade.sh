# upgrade.sh - record in the state of an agent how far a change of its version is
#
# Arguments: STATE DO [LINE...]
#   saved LINE...  the state was saved: from=, to=, backup=, where= and at= of the backup
#   verified       the agent was verified, with the version in .paddock/version
#   back WHY       the agent goes back to the version and the state from before
#   on             it does not go back after all
#   ended          it went back: the record is removed, unless the state from before the rollback is still there
set -eu
umask 077
state=$1 do=$2
shift 2
. ./agent/fail.sh
. ./state/top.sh
. ./code/upgraded.sh

is_own "$state/.paddock" || fail 78 "$state/.paddock is not a directory that only root can enter"
record=$state/.paddock/upgrade

write() { # from stdin
    cat >"$record.new"
    sync "$record.new"
    mv "$record.new" "$record"
}

is_now() { # KEY: whether the code that last ran on the state has the version in the record
    [ -e "$record" ] && [ "$(upgrade_says "$state" "$1")" = "$(cat "$state/.paddock/version" 2>/dev/null)" ]
}

case "$do" in
    saved) printf '%s\n' "$@" | write ;;
    verified)
        if is_now to && [ "$(upgrade_says "$state" back)" != yes ] && [ "$(upgrade_says "$state" verified)" != yes ]; then
            { cat "$record" && echo verified=yes; } | write
        fi
        ;;
    back)
        [ -e "$record" ] || fail 75 "$record is missing"
        { sed '/^back=/d; /^why=/d' "$record" && printf 'back=yes\nwhy=%.500s\n' "$1"; } | write
        ;;
    on) [ ! -e "$record" ] || sed '/^back=/d; /^why=/d' "$record" | write ;;
    ended)
        if is_now from && [ "$(upgrade_says "$state" back)" = yes ] && [ -z "$(replaced_state "$state")" ]; then
            rm "$record"
        fi
        ;;
esac
