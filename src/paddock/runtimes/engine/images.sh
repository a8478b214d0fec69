# Before the other parts, with ROOT as the first argument: images that came from archives, which nobody else would miss.
root=$1

# The images of the configurations that are there: the one in force, and the one before.
images_named() {
    cat "$root"/*/bundle.env 2>/dev/null | sed -n 's/^IMAGE="\(.*\)"$/\1/p' | sort -u
}

# drop_images IMAGE...: removes those that no other agent's configuration names. One that a container is made of stays.
drop_images() {
    for image; do
        case "$image" in localhost/paddock/archive:*) ;; *) continue ;; esac
        others=$(grep -lF "\"$image\"" "${root%/*}"/*/*/bundle.env 2>/dev/null | grep -v "^$root/" || true)
        [ -n "$others" ] || "$ENGINE" image rm "$image" >/dev/null 2>&1 || true
    done
}

images_before=$(images_named)
