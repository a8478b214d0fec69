#!/bin/sh
# attach.sh - start the agent's container, and wait until it ends
#
# Arguments: none
# Runs on the machine, from the current bundle, as the main process of the container's unit.
#
# A container that someone has removed is created again. Software that was installed in it is lost.
set -eu
here=${0%/*}
# shellcheck source=/dev/null # written by Paddock, in the bundle
. "$here/bundle.env"

refuse() { # MESSAGE
    printf 'paddock: %s\n' "$1" >&2
    exit 78
}

inspected() { # FORMAT, of the container
    "$ENGINE" container inspect --format "$1" "$CONTAINER" 2>/dev/null
}

image_id() { # REFERENCE
    "$ENGINE" image inspect --format '{{.Id}}' "$1" 2>/dev/null | sed 's/^sha256://'
}

# A container without Paddock's labels belongs to someone else, whatever its name. Those of Paddock 0.1 name no agent.
is_ours() {
    [ -n "$(inspected '{{index .Config.Labels "paddock.identity"}}')" ] || return 1
    case "$(inspected '{{index .Config.Labels "paddock.agent"}}')" in '' | "$AGENT") ;; *) return 1 ;; esac
}

create() {
    # shellcheck disable=SC2153 # bundle.env sets it
    image=$IMAGE
    # An agent with code runs in the image that Paddock made from the base, if the base lacks Python.
    with_python=localhost/paddock/python:$(image_id "$IMAGE" | cut -c 1-16)
    [ -z "$TREE" ] || [ -z "$(image_id "$with_python")" ] || image=$with_python
    entrypoint=$("$ENGINE" image inspect --format '{{range .Config.Entrypoint}}{{println .}}{{end}}' "$image") || return
    set -- "$here/create" "$CONTAINER" "$image"
    while IFS= read -r word; do
        [ -z "$word" ] || set -- "$@" "$word"
    done <<WORDS
$entrypoint
WORDS
    sh "$@" >/dev/null
}

if ! inspected '{{.Id}}' >/dev/null; then
    "$ENGINE" ps --quiet >/dev/null # an engine that does not run hides the container
    [ -n "$(image_id "$IMAGE")" ] ||
        refuse "the container $CONTAINER was removed, and its image $IMAGE too; \`paddock up\` creates both again"
    echo "paddock: the container $CONTAINER was removed; it is created again, without the software installed in it" >&2
    create
elif ! is_ours; then
    refuse "the container $CONTAINER is not of this agent; rename or remove it, then run \`paddock up\`"
fi
if [ -n "$SERVICE" ]; then
    # halt.sh finds the container's processes by this id if the daemon does not run.
    inspected '{{.Id}}' >"$here/../container.new"
    mv "$here/../container.new" "$here/../container"
fi
exec "$ENGINE" start --attach "$CONTAINER"
