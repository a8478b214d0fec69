# Library: the former ids of an agent, and other agents of its name.
# Expects: $root, $state_link, $agent.
. ./agent/names.sh

# Find where an agent with another id has its configuration and the link to its state. The link of Paddock 0.1 is at the
# default path of a state, and a state at that path has no link.
# Sets: $former_root, $former_link.
locate_former() { # ID
    case "$root" in
        */"$agent"/etc) former_root=${root%/"$agent"/etc}/$1/etc ;;
        *) former_root=${root%/*}/$1 ;;
    esac
    states=${state_link%/.agents/*}
    case "$1" in
        *_*) former_link=$states/.agents/$1 ;;
        *)
            former_link=$states/$1
            [ "$states" = /var/lib/paddock ] || former_link=$former_link/state
            ;;
    esac
}

# Print the ids of other agents with this agent's name. Directories and links of these names belong to root, or without
# root to this account.
others_of_the_name() { # FORMER...
    case "$root" in
        */"$agent"/etc) set -- "$* $agent" "${root%/"$agent"/etc}"/*/etc/current ;;
        *) set -- "$* $agent" "${root%/*}"/*/current ;;
    esac
    known=" $1 "
    shift
    for found in "$@" "${state_link%/*}"/*; do
        [ -L "$found" ] || continue
        found=${found%/current} && found=${found%/etc} && found=${found##*/}
        case "$known" in *" $found "*) continue ;; esac
        [ "$(name_of "$found")" != "$(name_of "$agent")" ] || echo "$found"
    done | sort -u
}
