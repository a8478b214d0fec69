# Library: the top directory of a state, and the directory .paddock in it.
# Expects: nothing. The agent may have been able to write to the top directory before Paddock claimed the state.
. ./agent/fail.sh

# An agent may have created anything under the name of Paddock's directory. Accept only a real directory that belongs to
# the user who runs this script and that no one else can enter.
is_own() { # DIRECTORY
    [ ! -L "$1" ] && [ -d "$1" ] && [ "$(stat -c '%u %a' -- "$1")" = "$(id -u) 700" ]
}

# A user who can replace a directory on the path to the state can redirect root to another directory. A directory that
# everyone can write to is accepted if it is sticky and root owns the next entry of the path.
expect_path_of_root() { # PATH
    [ "$(id -u)" = 0 ] || return 0
    for part in "$1" "$(readlink -m -- "${1%/*}")/${1##*/}"; do
        while next=$part part=${part%/*} && [ -n "$part" ]; do
            [ -e "$part" ] || continue
            case "$(stat -L -c '%u %A' -- "$part")" in
                0\ d????-??-?) ;;
                0\ d????????[tT]) [ ! -e "$next" ] || [ "$(stat -c %u -- "$next")" = 0 ] || refuse_path "$1" "$next" ;;
                *) refuse_path "$1" "$part" ;;
            esac
        done
    done
}

refuse_path() { # PATH DIRECTORY
    fail 78 "users other than root can write to $2 and could replace the state ($1); keep the state below a directory\
 that only root can write to, or: chown root:root $2 && chmod go-w $2"
}

# Afterwards only root can create, move or replace entries of the top directory.
take_top() { # STATE
    if [ "$(id -u)" = 0 ]; then
        chown -h root -- "$1"
    fi
    [ ! -L "$1" ] && [ -d "$1" ] || fail 78 "$1 is not a directory"
    chmod go-w -- "$1"
}

# Print the mount points at or below a directory.
mounts_at() { # DIRECTORY
    while read -r _ _ _ _ mounted _; do
        mounted=$(printf '%b.' "$mounted") && mounted=${mounted%.} # mountinfo writes a blank as \040
        case "$mounted/" in "$1"/*) printf '%s\n' "$mounted" ;; esac
    done </proc/self/mountinfo
}
