# engine/base.sh - report the image for an agent with code: its base, or one made from the base that has Python too
#
# Arguments: PROGRAM VERSION...; PROGRAM is the text of python.sh
# Environment: ENGINE, IMAGE; CONTAINER and AGENT, of the agent
# Output: a report: image=NAME
#
# The distribution's Python is installed in a container, which becomes the new image. The base itself stays as it is: it
# may be used by others too. A run that is killed leaves the container, which the next one removes.
set -eu
program=$1
shift
. ./agent/report.sh
. ./image/layered.sh

has_python() { # IMAGE_TO_TRY VERSION...
    tried=$1
    shift
    "$ENGINE" run --rm --network none --env THROWAWAY=yes --entrypoint /bin/sh "$tried" -c "$program" paddock "$@" |
        tr '\0' '\n' | grep -q '^python='
}

# Through the machine's network, as the agent's container. A Python that does not fit is no reason for an image.
add_python() { # VERSION...
    drop_layer "$CONTAINER" "$AGENT"
    code=0
    # shellcheck disable=SC2153 # the environment has IMAGE
    "$ENGINE" run --name "$CONTAINER.layer" --label "paddock.layer=$AGENT" --network host --entrypoint /bin/sh "$IMAGE" \
        -c "$program
look \"\$@\" || exit 69
# The agent may install packages of Python.
python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip || exit 1
clean_packages" paddock "$@" >/dev/null || code=$?
    if [ "$code" = 0 ]; then
        "$ENGINE" commit --change 'ENTRYPOINT []' --change 'CMD ["/bin/sh"]' \
            "$CONTAINER.layer" "$(layered_name "$(image_id "$IMAGE")")" >/dev/null
    fi
    drop_layer "$CONTAINER" "$AGENT"
    case "$code" in 0 | 69) ;; *) exit "$code" ;; esac
}

usable=$(with_python "$IMAGE")
if ! has_python "$usable" "$@"; then
    add_python "$@"
    usable=$(with_python "$IMAGE")
fi
report image "$usable"
report end ok
