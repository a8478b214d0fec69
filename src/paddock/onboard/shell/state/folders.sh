# Library: check that a directory may become the state of an agent.
# Expects: $STATE, $AGENT, $root, $STORE, $STATE_LINK.
. ./agent/fail.sh
. ./agent/names.sh

# A state must not be at, above or below directories of the system, of Paddock, or of another agent's state. Symbolic
# links are resolved, which the check of the file cannot do. The files that name other agents' states belong to root, or
# without root to this account, and are trusted.
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
        */"$AGENT"/etc) # in an account, where configuration and state are side by side
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
    keep_apart "${STATE_LINK%/*}" "Paddock's own"
    for other in "${STATE_LINK%/*}"/*; do keep_apart_from_link "$other"; done
    check_default_paths
}

# Default paths of states are DIRECTORY/NAME, in an account DIRECTORY/NAME/state. Paddock 0.1 put a link there for a state
# elsewhere. Other paths below DIRECTORY are no place for a state.
check_default_paths() {
    states=$(realpath -m -- "${STATE_LINK%/.agents/*}") below=/state
    [ "$states" != /var/lib/paddock ] || below=
    for other in "$states"/*"$below"; do keep_apart_from_old_link "$other"; done
    case "$real" in "$states" | "$states"/*) ;; *) return 0 ;; esac
    name=${real#"$states"} && name=${name#/}
    case "$name" in '' | .*) not_for_a_state "$states" "Paddock's own" ;; esac
    [ "$name" = "${name%%/*}$below" ] || not_for_a_state "$states" "Paddock's own"
}

not_for_a_state() { # FOLDER OWNER
    [ "$real" = "$STATE" ] || fail 78 "$STATE leads to $real, and $1 is $2: write another state.path"
    fail 78 "the state cannot be $STATE, because $1 is $2: write another state.path"
}

keep_apart() { # FOLDER OWNER
    there=$(realpath -m -- "$1")
    case "$real/" in "$there"/*) not_for_a_state "$1" "$2" ;; esac
    case "$there/" in "$real"/*) not_for_a_state "$1" "$2" ;; esac
}

keep_apart_from() { # AGENT ROOT: the state that another agent's current bundle names
    [ "${1##*/}" != "$AGENT" ] && [ -e "$2/current/bundle.env" ] || return 0
    # shellcheck source=/dev/null # written by Paddock, in another agent's bundle
    theirs=$(STATE='' && . "$2/current/bundle.env" && echo "$STATE")
    [ -z "$theirs" ] || keep_apart "$theirs" "the state of $(in_words "${1##*/}")"
}

keep_apart_from_link() { # LINK: the state of another agent that may have no bundle at present
    [ "${1##*/}" != "$AGENT" ] && [ -L "$1" ] || return 0
    keep_apart "$1" "the state of $(in_words "${1##*/}")"
}

# The link may lead to this very state: then the identity in the state decides.
keep_apart_from_old_link() { # PATH
    [ -L "$1" ] && [ "$(realpath -m -- "$1")" != "$real" ] || return 0
    keep_apart "$1" "the state of an agent that has no project"
}
