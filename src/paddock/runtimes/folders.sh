# Shared by whatever makes a folder the state of an agent: the state is the agent's alone. It is not at, above or below
# the system's folders, Paddock's own, or another agent's state. A link counts as what it leads to, which the file cannot
# know. What tells of other agents is root's and so trusted, or where there is no root, the account's own.
# Uses $STATE, $AGENT, $root, $STORE and $TRAIL.
check_state_path() {
    real=$(realpath -m -- "$STATE")
    case "$real/" in
        / | // | /home/ | /media/ | /mnt/ | /opt/ | /root/ | /srv/ | /tmp/ | /var/ | /var/backups/ | /var/cache/ | \
            /var/lib/ | /var/local/ | /var/log/ | /var/mail/ | /var/opt/ | /var/tmp/ | \
            /bin/* | /boot/* | /dev/* | /etc/* | /lib/* | /lib32/* | /lib64/* | /libx32/* | /proc/* | /run/* | /sbin/* | \
            /sys/* | /usr/* | /root/.ssh/* | /var/lock/* | /var/run/* | /var/spool/* | /var/lib/apt/* | \
            /var/lib/containers/* | /var/lib/docker/* | /var/lib/dpkg/* | /var/lib/lxc/* | /var/lib/systemd/*)
            not_for_a_state "$real" "the system's own"
            ;;
    esac
    keep_apart "${STORE%/*}" "Paddock's own"
    case "$root" in
        */"$AGENT"/etc) # in an account, with the state beside it
            for other in "$root" "${root%/*/*}"/*/etc; do
                keep_apart "$other" "Paddock's own"
                keep_apart_from "${other%/etc}" "$other"
            done
            ;;
        *)
            keep_apart "${root%/*}" "Paddock's own"
            for other in "${root%/*}"/*; do keep_apart_from "$other" "$other"; done
            ;;
    esac
    case "$TRAIL" in
        */"$AGENT"/state) for other in "${TRAIL%/*/*}"/*/state; do keep_apart_from_trail "${other%/state}" "$other"; done ;;
        *) for other in "${TRAIL%/*}"/*; do keep_apart_from_trail "$other" "$other"; done ;;
    esac
}

not_for_a_state() { # FOLDER WHOSE
    [ "$real" = "$STATE" ] || fail 78 "$STATE leads to $real, and $1 is $2: write another state.path"
    fail 78 "the state cannot be $STATE, because $1 is $2: write another state.path"
}

keep_apart() { # FOLDER WHOSE
    there=$(realpath -m -- "$1")
    case "$real/" in "$there"/*) not_for_a_state "$1" "$2" ;; esac
    case "$there/" in "$real"/*) not_for_a_state "$1" "$2" ;; esac
}

keep_apart_from() { # AGENT ROOT: from the state that another agent's configuration in force names
    [ "${1##*/}" != "$AGENT" ] && [ -e "$2/current/bundle.env" ] || return 0
    theirs=$(STATE= && . "$2/current/bundle.env" && echo "$STATE")
    [ -z "$theirs" ] || keep_apart "$theirs" "the state of the agent ${1##*/}"
}

keep_apart_from_trail() { # AGENT TRAIL: the same for another agent that may have no configuration now
    [ "${1##*/}" != "$AGENT" ] && { [ -L "$2" ] || [ -d "$2" ]; } || return 0
    # A directory that is this very state only has the name of another agent. Its identity tells whose it is.
    [ -L "$2" ] || [ "$(realpath -- "$2")" != "$real" ] || return 0
    keep_apart "$2" "the state of the agent ${1##*/}"
}
