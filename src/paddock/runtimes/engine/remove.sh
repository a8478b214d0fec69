# After systemd's part, when nothing runs any more: the container goes, and with it what was installed in it.
if command -v "$ENGINE" >/dev/null; then
    "$ENGINE" ps --quiet >/dev/null # fails where the engine does not run, and so says what it is
    drop_container "$ENGINE" "$CONTAINER"
    drop_container "$ENGINE" "$CONTAINER.new"
    drop_images $images_before
fi
