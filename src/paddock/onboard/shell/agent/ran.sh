# Library: the version of the code that last ran on a state.
# Expects: $root; perhaps $DISTRIBUTION, the package that brings the code. .paddock must be known to be Paddock's own.

# .paddock/version is written before a version of the code can touch the state. It is in the state, because a machine does
# not last.

version_that_ran() { # STATE STORE
    if [ -e "$1/.paddock/version" ]; then
        cat "$1/.paddock/version"
    elif [ -e "$root/current/bundle.env" ]; then
        # An earlier Paddock did not record the version: its bundle names the code tree, or the image that brings the code.
        # shellcheck source=/dev/null disable=SC2153 # written by Paddock, in the bundle
        (IMAGE='' && . "$root/current/bundle.env" && version_of_tree "$2" "$TREE" "$IMAGE")
    fi
}

version_of_tree() { # STORE TREE IMAGE
    if [ -z "$2" ]; then
        [ -z "$3" ] || echo "image $3"
        return
    fi
    for found in "$1/$2"/lib/python3.*/site-packages/"${DISTRIBUTION-}"-*.dist-info; do
        [ ! -d "$found" ] || { found=${found%.dist-info} && echo "${found##*/"${DISTRIBUTION-}"-}"; }
    done
}
