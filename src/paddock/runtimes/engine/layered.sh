# Library: images that Paddock made from a base that lacks Python. A label names the base, by its id.
# Expects: $ENGINE.
. ./engine/kept.sh
. ./engine/own.sh

# Print the image that an agent with code runs in: the base, or the newest image that Paddock made from it.
with_python() { # IMAGE
    of=$(image_id "$1")
    made=
    [ -z "$of" ] || made=$("$ENGINE" images --quiet --no-trunc --filter "label=paddock.base=$of" | head -n 1)
    echo "${made:-$1}"
}

base_of() { # ID: print the id of the image that this one was made from, or its own id
    made_from=$("$ENGINE" image inspect --format '{{index .Config.Labels "paddock.base"}}' "$1" 2>/dev/null || true)
    case "$made_from" in '' | '<no value>') echo "$1" ;; *) echo "$made_from" ;; esac
}

# Remove the container in which such an image is made.
drop_layer() { # CONTAINER ID, of the agent. No id has a dot
    [ "$(label "$ENGINE" "$1.layer" paddock.layer)" != "$2" ] || "$ENGINE" rm --force --volumes "$1.layer" >/dev/null
}
