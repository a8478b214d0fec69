# Library: write the files of the state that bundle/state/list names.
# Expects: set -eu; $root, $STATE, $HOME_DIR, $OWNER (USER:GROUP, or empty where Paddock and the agent are one user).

# The agent is not trusted: while this runs, it can create links, directories and pipes wherever it may write. So the
# agent's own files are written as the agent. Root's files are in directories that are root's and sticky, from the top of
# the state down: the agent can create entries there and cannot replace those of others.
. ./agent/fail.sh
. ./state/ownership.sh
. ./state/overwritten.sh

as_agent() {
    if [ -z "$OWNER" ]; then
        "$@"
    else
        setpriv --reuid "${OWNER%:*}" --regid "${OWNER#*:}" --clear-groups --no-new-privs "$@"
    fi
}

# Functions for root's shell and for those of the agent.
# shellcheck disable=SC2016 # the shell that gets them expands them
functions='
# Rename an entry that is in the place of a file and is no regular file.
set_aside() { # PATH
    if [ -L "$1" ] || { [ -e "$1" ] && [ ! -f "$1" ]; }; then
        mv -T -- "$1" "$1.found-$(date +%s)"
    fi
}

# Whether a run that was killed has left a file that it had begun, perhaps with a secret in it.
has_left_beside() { # PATH
    for begun in "$1".paddock-??????; do
        [ ! -e "$begun" ] && [ ! -L "$begun" ] || return 0
    done
    return 1
}

# Print the name of a new, empty file beside another one.
new_beside() { # PATH
    if has_left_beside "$1"; then
        rm -f -- "$1".paddock-?????? 2>/dev/null || true
    fi
    mktemp -- "$1.paddock-XXXXXX"
}
'
eval "$functions"

write_as_agent() { # PATH: from stdin; under another name first, so that the file is never incomplete
    # shellcheck disable=SC2016 # the agent's shell expands it
    as_agent sh -c "$functions"'
        set -eu
        umask 077
        cd "$1"
        case "$2" in */*) mkdir -p -- "${2%/*}" ;; esac
        new=$(new_beside "$2")
        cat >"$new"
        set_aside "$2"
        mv -fT -- "$new" "$2"
    ' paddock "$HOME_DIR" "$1"
}

missing_to_agent() { # PATH
    # shellcheck disable=SC2016 # the agent's shell expands it
    as_agent sh -c 'cd "$1" && [ ! -e "$2" ] && [ ! -L "$2" ]' paddock "$HOME_DIR" "$1"
}

# Whether a regular file of the agent has exactly the text on stdin. The agent may replace it by a pipe meanwhile.
same_to_agent() { # PATH
    # shellcheck disable=SC2016 # the agent's shell expands it
    as_agent sh -c 'cd "$1" && [ -f "$2" ] && [ ! -L "$2" ] && timeout 10 cmp -s -- "$2" -' paddock "$HOME_DIR" "$1"
}

make_folder() { # PATH; an absolute one is not in the state
    # shellcheck disable=SC2016 # the agent's shell expands it
    if as_agent sh -c 'umask 077 && cd "$1" && mkdir -p -- "$2"' paddock "$HOME_DIR" "$1" 2>"$root/said"; then
        rm -f "$root/said"
    elif [ -n "$OWNER" ] && [ "${1#/}" != "$1" ] && [ ! -e "$1" ] && [ ! -L "$1" ]; then
        rm -f "$root/said"
        expect_root_above "$1"
        (umask 022 && mkdir -p -- "${1%/*}" && mkdir -- "$1" && chown -h "$OWNER" -- "$1")
    else
        cat "$root/said" >&2 && exit 1
    fi
}

# Root would follow the link of a user who can write there. In a sticky directory nobody can replace an entry of root's.
expect_root_above() { # PATH
    above=$1
    while below=$above above=${above%/*} && [ -n "$above" ]; do
        [ -e "$above" ] || [ -L "$above" ] || continue
        case "$(stat -c '%u %A' -- "$above")" in
            0\ d????-??-?) ;;
            0\ d????????[tT]) [ "$(stat -c %u -- "$below" 2>/dev/null)" = 0 ] || refuse_above "$1" "$above" ;;
            *) refuse_above "$1" "$above" ;;
        esac
    done
}

refuse_above() { # PATH DIRECTORY
    fail 78 "$1 cannot be made for the agent, because others can write to $2: make it, and give it to uid ${OWNER%:*}"
}

# A seeded file is what the agent has learned, from its first start on. A person who changes the text has to know.
seed() { # PATH CONTENT
    if missing_to_agent "$1"; then
        write_as_agent "$1" <"$2"
    elif ! same_to_agent "$1" <"$2"; then
        printf '%s\n' "$1 has the agent's own text, which is kept; the text of the file was written once"
    fi
}

# Delete planted files that the new bundle does not have, unless the agent has changed them. The current bundle, which
# becomes the previous one, keeps their texts.
remove_left_plants() {
    left=$root/current/state
    [ -e "$left/list" ] || return 0
    while IFS=$tab read -r verb source path <&3; do
        if [ "$verb" != plant ] || cut -f 3 "$list" | grep -qxF -- "$path"; then
            continue
        fi
        if same_to_agent "$path" <"$left/$source" 3<&-; then
            # shellcheck disable=SC2016 # the agent's shell expands it
            as_agent sh -c 'cd "$1" && rm -f -- "$2"' paddock "$HOME_DIR" "$path" 3<&- </dev/null
        fi
    done 3<"$left/list"
}

# Make a directory root's and sticky. The agent can create entries in it.
hold() { # DIRECTORY [MODE], in a directory that is held already
    if [ -n "$OWNER" ]; then
        # From here on the agent cannot replace the entry. The group is set below, when it is known to be a directory.
        chown -h root -- "$1"
    fi
    [ -d "$1" ] && [ ! -L "$1" ] || fail 78 "$1 is not a directory"
    if [ -n "$OWNER" ]; then
        chgrp "${OWNER#*:}" "$1"
        chmod "${2:-1770}" "$1"
    fi
}

make_and_hold() { # DIRECTORY, in a directory that is held already
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

# A locked file belongs to root. Where Paddock and the agent are one user, only its mode tells it from other files.
is_own_file_of_agent() { # PATH
    [ -f "$1" ] && [ ! -L "$1" ] || return 1
    if [ -n "$OWNER" ]; then
        [ "$(stat -c %u -- "$1")" != 0 ]
    else
        [ "$(stat -c %a -- "$1")" != 444 ]
    fi
}

# Whether a locked file is as an earlier run wrote it. The agent cannot replace a file of root's in a held directory. A
# file with a second name can be changed by that name.
is_locked() { # PATH CONTENT
    [ -f "$1" ] && [ ! -L "$1" ] && ! has_left_beside "$1" && [ "$(stat -c '%a %h' -- "$1")" = "444 1" ] &&
        ! is_own_file_of_agent "$1" && cmp -s -- "$1" "$2"
}

lock() { # PATH CONTENT, in a directory that is held
    ! is_locked "$1" "$2" || return 0
    new=$(new_beside "$1")
    cat "$2" >"$new"
    chmod 444 "$new"
    if is_own_file_of_agent "$1"; then
        mv -T -- "$1" "$1.found-$(date +%s)"
    else
        set_aside "$1"
    fi
    mv -fT -- "$new" "$1"
}

# Delete files that are no longer locked: they were never the agent's. The state records them, because a machine does not
# last. Their directories are held first, because the state may have been on another machine meanwhile. repair_ownership
# gives directories back that need not be held.
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
    sed -n "s/^lock${tab}[^$tab]*$tab//p" "$list" >"$locked"
}

write_state_files() {
    list=$root/incoming/bundle/state/list
    sources=$root/incoming/bundle/state
    secrets=$root/incoming/secret-files
    hold "$STATE" 750 # the agent creates nothing in the top directory
    if grep -q '^hold' "$list"; then
        make_and_hold "$HOME_DIR"
    elif [ ! -d "$HOME_DIR" ]; then
        mkdir -m 700 "$HOME_DIR"
    fi
    unlock_others
    [ -z "$OWNER" ] || repair_ownership
    : >"$root/overwritten.new"
    remove_left_plants
    while IFS=$tab read -r verb source path <&3; do
        # shellcheck disable=SC2016 # the agent's shell expands it
        case "$verb" in
            hold) [ "$path" = . ] || make_and_hold "$HOME_DIR/$path" ;;
            lock) lock "$HOME_DIR/$path" "$sources/$source" ;;
            folder) make_folder "$path" ;;
            plant) write_as_agent "$path" <"$sources/$source" ;;
            seed) seed "$path" "$sources/$source" ;;
            secret-plant)
                # The agent read the file that is replaced, so it is restarted.
                is_as_written "$path" || touch "$root/pending"
                write_as_agent "$path" <"$secrets/$source"
                printf '%s\t%s\n' "$(condition_of "$path")" "$path" >>"$root/overwritten.new"
                ;;
            secret-seed)
                ! missing_to_agent "$path" || write_as_agent "$path" <"$secrets/$source"
                rm "$secrets/$source"
                ;;
        esac 3<&- </dev/null
    done 3<"$list"
    mv -f "$root/overwritten.new" "$root/overwritten"
}
