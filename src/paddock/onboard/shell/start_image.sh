#!/bin/sh
# start_image.sh - process 1 of a container whose image brings the agent's code
#
# Arguments: ENTRYPOINT...; the image's own
# Runs in the container, as root, from the current bundle. It adds the bundle's environment and becomes the image's
# entrypoint with the agent's arguments. The image drops from root to the agent's account.
set -eu
here=${0%/*}
root=${here%/*}
# shellcheck source=/dev/null # written by Paddock, in the bundle
. "$here/bundle.env"
. ./limited.sh

# The PATH of the image may name directories of the state. The image's start would run programs of the agent as root.
leave_out_state() {
    left=$PATH: safe=
    while [ -n "$left" ]; do
        each=${left%%:*} left=${left#*:}
        case "$each/" in
            "$DATA"/* | "$ACCOUNT_HOME"/* | / | [!/]* | */../*) ;;
            *) safe=${safe:+$safe:}$each ;;
        esac
    done
    PATH=$safe
}

# s6 runs such hooks as root, in the order of their names, before it starts the agent's processes. Those of the image give
# the state to the agent. The last one locks again what is locked.
add_hook() {
    hooks=/etc/cont-init.d
    [ -d "$hooks" ] || return 0
    printf '#!/bin/sh\nexec /bin/sh %s/relock\n' "$here" >"$hooks/zz-paddock"
    chmod 755 "$hooks/zz-paddock"
}

leave_out_state
check_limits confined
find_families
# shellcheck disable=SC2086 # several words
set -- $families "$@"
add_hook
set -a
# shellcheck source=/dev/null # written by Paddock, in the bundle
. "$here/environment"
# shellcheck source=/dev/null # written by Paddock, beside the bundle
. "$root/secrets.env"
# shellcheck source=/dev/null # written by Paddock, beside the bundle
. "$root/generated.env"
set +a
for each in "$here"/processes/*; do
    # shellcheck source=/dev/null # written by Paddock, in the bundle
    . "$each"
done
