# Shared by the runtimes' apply scripts, after receive.sh and ownership.sh: brings about what bundle/state/list says of the state.
# $OWNER is USER:GROUP of the agent, or empty where Paddock itself is no other user than the agent.
#
# The agent is not trusted: while this runs it can put links, directories and pipes wherever it may write. So what is
# its own is written under its own user. What is root's lies in directories that are root's and sticky, all the way
# down from the top of the state: there the agent can make entries, but cannot replace those of others.
as_agent() {
    if [ -z "$OWNER" ]; then
        "$@"
    else
        setpriv --reuid "${OWNER%:*}" --regid "${OWNER#*:}" --clear-groups --no-new-privs "$@"
    fi
}

# Whatever else is in the place of a file is kept under another name.
set_aside='set_aside() {
    if [ -L "$1" ] || { [ -e "$1" ] && [ ! -f "$1" ]; }; then
        mv -T -- "$1" "$1.found-$(date +%s)"
    fi
}'
eval "$set_aside"

write_as_agent() { # PATH: from stdin; under another name first, so that it is there whole or not at all
    as_agent sh -c "$set_aside"'
        set -eu
        umask 077
        cd "$1"
        case "$2" in */*) mkdir -p -- "${2%/*}" ;; esac
        new=$(mktemp -- "$2.XXXXXX")
        cat >"$new"
        set_aside "$2"
        mv -fT -- "$new" "$2"
    ' paddock "$HOME_DIR" "$1"
}

missing_to_agent() { # PATH
    as_agent sh -c 'cd "$1" && [ ! -e "$2" ] && [ ! -L "$2" ]' paddock "$HOME_DIR" "$1"
}

hold() { # DIRECTORY [MODE], in one that is held already
    if [ -n "$OWNER" ]; then
        # From here on the agent cannot put anything else in its place. Its group comes later: it may not be a directory.
        chown -h root -- "$1"
    fi
    [ -d "$1" ] && [ ! -L "$1" ] || fail 78 "$1 is not a directory"
    if [ -n "$OWNER" ]; then
        chgrp "${OWNER#*:}" "$1"
        chmod "${2:-1770}" "$1"
    fi
}

make_and_hold() { # DIRECTORY [MODE], in one that is held already
    if [ -L "$1" ] || [ ! -d "$1" ]; then
        [ ! -L "$1" ] && [ ! -e "$1" ] || mv -T -- "$1" "$1.found-$(date +%s)"
        mkdir -- "$1"
    fi
    hold "$1"
}

hold_above() { # PATH below the home
    above=$HOME_DIR rest=$1
    make_and_hold "$above"
    while [ "$rest" != "${rest#*/}" ]; do
        above=$above/${rest%%/*} rest=${rest#*/}
        make_and_hold "$above"
    done
}

lock() { # PATH CONTENT, in a directory that is held
    new=$(mktemp -- "$1.XXXXXX")
    cat "$2" >"$new"
    chmod 444 "$new"
    if [ -n "$OWNER" ] && [ -f "$1" ] && [ "$(stat -c %u -- "$1")" != 0 ]; then
        mv -T -- "$1" "$1.found-$(date +%s)"
    else
        set_aside "$1"
    fi
    mv -fT -- "$new" "$1"
}

# What was locked and is not to be any more goes: it was never the agent's. The state remembers, not the machine. Where it
# lies is held for it, because the state may have been elsewhere meanwhile; what need not be is given back afterwards.
unlock_others() {
    locked=$STATE/.paddock/locked
    touch "$locked"
    while read -r path; do
        case "/$path/" in
            *//* | */../* | */./*) fail 78 "$locked names $path, which is not a path below the home; remove that line" ;;
        esac
        if ! cut -f 1,3 "$list" | grep -qxF "lock$tab$path"; then
            hold_above "$path"
            rm -f -- "$HOME_DIR/$path"
        fi
    done <"$locked"
    sed -n "s/^lock$tab[^$tab]*$tab//p" "$list" >"$locked"
}

write_state_files() {
    list=$root/incoming/bundle/state/list
    sources=$root/incoming/bundle/state
    secrets=$root/incoming/secret-files
    hold "$STATE" 750 # nothing in the top is the agent's to make
    if grep -q '^hold' "$list"; then
        make_and_hold "$HOME_DIR"
    elif [ ! -d "$HOME_DIR" ]; then
        mkdir -m 700 "$HOME_DIR"
    fi
    unlock_others
    [ -z "$OWNER" ] || repair_ownership
    while IFS=$tab read -r verb source path <&3; do
        case "$verb" in
            hold) [ "$path" = . ] || make_and_hold "$HOME_DIR/$path" ;;
            lock) lock "$HOME_DIR/$path" "$sources/$source" ;;
            folder) as_agent sh -c 'umask 077 && cd "$1" && mkdir -p -- "$2"' paddock "$HOME_DIR" "$path" ;;
            plant) write_as_agent "$path" <"$sources/$source" ;;
            seed) ! missing_to_agent "$path" || write_as_agent "$path" <"$sources/$source" ;;
            secret-plant) write_as_agent "$path" <"$secrets/$source" ;;
            secret-seed)
                ! missing_to_agent "$path" || write_as_agent "$path" <"$secrets/$source"
                rm "$secrets/$source"
                ;;
        esac 3<&- </dev/null
    done 3<"$list"
}
