# After systemd's part, when nothing runs any more: the container goes, and with it what was installed in it.
if command -v "$ENGINE" >/dev/null; then
    "$ENGINE" ps --quiet >/dev/null # fails where the engine does not run, and so says what it is
    for name in "$CONTAINER" "$CONTAINER-new"; do
        ! "$ENGINE" container inspect "$name" >/dev/null 2>&1 || "$ENGINE" rm --force --volumes "$name" >/dev/null
    done
    drop_images $images_before
fi
