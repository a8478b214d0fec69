# Library: images that Paddock made from a base that lacks Python.
# Expects: $ENGINE.
. ./image/kept.sh
. ./engine/own.sh

# Such an image has the name LAYERED:ID, with the id of its base. A label would not do: whoever publishes an image can give
# it any label.
layered_name() { # ID
    echo "$layered:$(echo "$1" | cut -c 1-16)"
}

# Print the image that an agent with code runs in: the base, or the one that Paddock made from it.
with_python() { # IMAGE
    name=$(layered_name "$(image_id "$1")")
    if [ -n "$(image_id "$name")" ]; then echo "$name"; else echo "$1"; fi
}

is_made_from() { # ID BASE_ID: whether an image is this base, or was made from it
    [ "$1" = "$2" ] || { [ -n "$1" ] && [ "$1" = "$(image_id "$(layered_name "$2")")" ]; }
}

# Remove the container in which such an image is made.
drop_layer() { # CONTAINER ID, of the agent. No id has a dot
    [ "$(label "$ENGINE" "$1.layer" paddock.layer)" != "$2" ] || "$ENGINE" rm --force --volumes "$1.layer" >/dev/null
}
