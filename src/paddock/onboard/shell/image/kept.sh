# Library: names for pulled images, so that an engine keeps an image when its tag names a newer one.
# Expects: $ENGINE.

# An image gets the name KEPT:ID-TIME when Paddock pulls it, and KEPT:ID if it was there before.
kept=localhost/paddock/kept
layered=localhost/paddock/python # the name of images that Paddock made from a base: see engine/layered.sh

image_id() { # REFERENCE
    "$ENGINE" image inspect --format '{{.Id}}' "$1" 2>/dev/null | sed 's/^sha256://'
}

container_image() { # CONTAINER: print the id of the image that the container was created from
    "$ENGINE" container inspect --format '{{.Image}}' "$1" 2>/dev/null | sed 's/^sha256://'
}

own_name() { # ID: print a name that Paddock gave the image, if there is one
    "$ENGINE" image inspect --format '{{range .RepoTags}}{{println .}}{{end}}' "$1" 2>/dev/null |
        grep -m 1 '^localhost/paddock/' || true
}

keep_image() { # ID [TIME]
    [ -n "$(own_name "$1")" ] || "$ENGINE" tag "$1" "$kept:$(echo "$1" | cut -c 1-16)${2:+-$2}"
}

# Print ID DIGEST TIME NAME; a word that is not known is "-". The digest is that of the registry.
described_image() { # ID
    digest=$("$ENGINE" image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$1" 2>/dev/null |
        sed -n 's/^.*@//p' | head -n 1)
    name=$(own_name "$1")
    time=$(echo "$name" | sed -n "s|^$kept:[0-9a-f]*-||p" | tr . :) # a name cannot have a colon
    echo "$1 ${digest:--} ${time:--} ${name:--}"
}

# Print the image that the agent ran before the one that its container has. ROOT/images names the last two with which the
# agent was verified, the newest first.
image_before() { # ROOT ID; ID is that of the container's image
    before=$(sed -n 1p "$1/images" 2>/dev/null)
    [ "$before" != "$2" ] || before=$(sed -n 2p "$1/images")
    [ -z "$before" ] || [ -z "$(image_id "$before")" ] || echo "$before"
}

# Remove the names of images that no agent of the machine was last verified with. An image without another name is removed
# too, unless a container uses it.
drop_kept_images() { # ROOT
    named=$(cat "${1%/*}"/*/images 2>/dev/null || true)
    # Podman prints every name of an image that has one of these.
    for own in "$kept" "$layered"; do
        "$ENGINE" images --format '{{.Repository}}:{{.Tag}}' "$own" | grep "^$own:" | while IFS= read -r name; do
            echo "$named" | grep -qxF -- "$(image_id "$name")" ||
                "$ENGINE" image rm "$name" </dev/null >/dev/null 2>&1 || true
        done
    done
}
