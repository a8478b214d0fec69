# Shared: the top of a state, and Paddock's own part in it. The agent may have been able to write there before Paddock came.

# Only a real directory is Paddock's own that belongs to whoever runs this and is closed to everyone else: an agent may have
# planted anything else under that name.
is_own() { # DIRECTORY
    [ ! -L "$1" ] && [ -d "$1" ] && [ "$(stat -c '%u %a' -- "$1")" = "$(id -u) 700" ]
}

# Whoever can replace a directory on the way to the state can lead root elsewhere. A directory that everyone may write to
# will do if it is sticky and what is next on the way is root's.
expect_way_of_root() { # PATH
    [ "$(id -u)" = 0 ] || return 0
    for way in "$1" "$(readlink -m -- "${1%/*}")/${1##*/}"; do
        while next=$way way=${way%/*} && [ -n "$way" ]; do
            [ -e "$way" ] || continue
            case "$(stat -L -c '%u %A' -- "$way")" in
                0\ d????-??-?) ;;
                0\ d????????[tT]) [ ! -e "$next" ] || [ "$(stat -c %u -- "$next")" = 0 ] || refuse_way "$1" "$next" ;;
                *) refuse_way "$1" "$way" ;;
            esac
        done
    done
}

refuse_way() { # PATH DIRECTORY
    fail 78 "$2 is not root's alone, so that others could put something else in the place of the state ($1); keep the state\
 below a directory of root's, or: chown root:root $2 && chmod go-w $2"
}

# From here on nobody but root makes, moves or replaces entries of the top.
take_top() { # STATE
    if [ "$(id -u)" = 0 ]; then
        chown -h root -- "$1"
    fi
    [ ! -L "$1" ] && [ -d "$1" ] || fail 78 "$1 is not a directory"
    chmod go-w -- "$1"
}

# Prints what is mounted at or below a directory.
mounts_at() { # DIRECTORY
    while read -r _ _ _ _ mounted _; do
        mounted=$(printf '%b.' "$mounted") && mounted=${mounted%.} # blanks are \040 there
        case "$mounted/" in "$1"/*) printf '%s\n' "$mounted" ;; esac
    done </proc/self/mountinfo
}
