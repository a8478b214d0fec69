# Library: images that were loaded from archives. Only Paddock uses them.
# Expects: $root, $ENGINE.

# Print the images of the agent's bundles: the current and the previous one.
images_named() {
    cat "$root"/*/bundle.env 2>/dev/null | sed -n 's/^IMAGE="\(.*\)"$/\1/p' | sort -u
}

# Remove the images on stdin, one a line, that no other agent's bundle names. The engine keeps an image that a container
# uses.
drop_images() {
    while IFS= read -r image; do
        case "$image" in localhost/paddock/archive:*) ;; *) continue ;; esac
        others=$(grep -lF "\"$image\"" "${root%/*}"/*/*/bundle.env 2>/dev/null | grep -v "^$root/" || true)
        [ -n "$others" ] || "$ENGINE" image rm "$image" </dev/null >/dev/null 2>&1 || true
    done
}
