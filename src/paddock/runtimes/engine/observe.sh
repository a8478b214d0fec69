# After the shared parts: the engine, the image and the container. Uses $ENGINE, $IMAGE, $CONTAINER and $IDENTITY.
! command -v "$ENGINE" >/dev/null || printf 'package=%s\n' "$@" # whichever package has brought it
if ! command -v "$ENGINE" >/dev/null; then
    echo "engine=missing"
elif ! said=$("$ENGINE" ps --quiet 2>&1 >/dev/null); then
    echo "engine=down: $(echo "$said" | tail -n 1)"
else
    echo "engine=up"
    echo "driver=$("$ENGINE" info --format "$DRIVER" 2>/dev/null)"
    ! "$ENGINE" image inspect "$IMAGE" >/dev/null 2>&1 || echo "image=$IMAGE"
    if found=$("$ENGINE" container inspect --format '{{index .Config.Labels "paddock.identity"}}' "$CONTAINER" 2>/dev/null); then
        echo "container=${found:-foreign}"
        # What would be lost with it: packages of the distribution, of Python and of Node that its image did not have.
        "$ENGINE" diff "$CONTAINER" | sed -n \
            -e 's|^A /var/lib/dpkg/info/\([^/]*\)\.list$|layer=\1|p' \
            -e 's|^A /.*/\(site\|dist\)-packages/\([^/]*\)-[^/-]*\.dist-info$|layer=\2|p' \
            -e 's|^A /.*/lib/node_modules/\([^/@]*\)$|layer=\1|p' \
            -e 's|^A /.*/lib/node_modules/\(@[^/]*/[^/]*\)$|layer=\1|p'
    fi
fi
