# Library: the record in a state of the agent that it belongs to.
# Expects: nothing. .paddock must be known to be Paddock's own directory (top.sh).
. ./agent/fail.sh
. ./agent/names.sh

# Version 1, of Paddock 0.1, has no line for the version, and names the agent without a project.
identity_version() { # STATE
    version=$(sed -n 's/^version=//p' "$1/.paddock/identity")
    echo "${version:-1}"
}

is_newer() { # STATE: whether a newer Paddock wrote the record
    case "$(identity_version "$1")" in 1 | 2) return 1 ;; esac
}

identity_of() { # STATE: print the id of its agent
    sed -n 's/^agent=//p' "$1/.paddock/identity"
}

# Accept only a state of this agent.
expect_identity() { # STATE ID
    ! is_newer "$1" || fail 78 "a newer Paddock wrote $1/.paddock/identity; use that version of Paddock or a newer one"
    [ "$(identity_of "$1")" = "$2" ] || fail 78 "$1 is the state of another agent: $(in_words "$(identity_of "$1")")"
}

write_identity() { # STATE ID [UUID]; under umask 077
    mkdir -p "$1/.paddock"
    printf 'version=2\nagent=%s\nid=%s\n' "$2" "${3:-$(cat /proc/sys/kernel/random/uuid)}" >"$1/.paddock/identity.new"
    sync "$1/.paddock/identity.new"
    mv "$1/.paddock/identity.new" "$1/.paddock/identity"
}
