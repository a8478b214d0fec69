# Library: keep the code trees that agents need, and delete the others.
# Expects: $STORE, $AGENT; $root, to keep a version.

# Code trees are in a store, named by their hash. Beside the store each agent has a folder with links to the trees that
# it needs: `current`, `previous`, the tree before that, and the tree that it was last verified with. A tree without a link
# is deleted with the next change.
. ./agent/fail.sh

keep_version() { # TREE: becomes the agent's current tree, unless it is already
    [ -e "$STORE/$1/manifest" ] || fail 75 "another run has removed the code $1; run \`paddock up\` again"
    # shellcheck disable=SC2153 # bundle.env sets it
    versions=${STORE%/*}/$AGENT
    (umask 022 && mkdir -p "$versions")
    ln -sfn "../${STORE##*/}/$1" "$versions/$1"
    before=$(readlink "$versions/current" || true)
    if [ "$before" != "$1" ]; then
        [ -z "$before" ] || ln -sfn "$before" "$versions/previous"
        ln -sfn "$1" "$versions/current.new"
        mv -T "$versions/current.new" "$versions/current"
    fi
    previous=$(readlink "$versions/previous" || true)
    verified=$(sed -n 's/^TREE="\(.*\)"$/\1/p' "$root/$(cat "$root/before/bundle" 2>/dev/null)/bundle.env" 2>/dev/null || true)
    for link in "$versions"/*; do
        case "${link##*/}" in
            current | previous | "$1" | "$previous" | "$verified") ;;
            *) rm "$link" ;;
        esac
    done
    prune_store
}

# Refuse to delete a folder that holds a state. Call this right before the folder is deleted.
expect_no_state() { # FOLDER...
    for folder; do
        found=$(find "$folder" -name .paddock -print -quit 2>/dev/null || true)
        above=$folder
        while [ -z "$found" ] && [ -n "$above" ]; do
            [ ! -e "$above/.paddock/identity" ] || found=$above/.paddock
            above=${above%/*}
        done
        [ -z "$found" ] || {
            echo "${found%/.paddock} holds the state of an agent, and all of $folder was about to be deleted:" \
                "stop the agent, move the state elsewhere and write that as state.path" >&2
            exit 78
        }
    done
}

drop_versions() {
    expect_no_state "${STORE%/*}/$AGENT"
    rm -rf --one-file-system "${STORE%/*}/${AGENT:?}"
    prune_store
}

# install.sh holds the same lock. A tree that is about to be installed has its link already.
prune_store() (
    [ -d "$STORE" ] || exit 0
    exec 9<"${STORE%/*}"
    flock 9
    for tree in "$STORE"/* "$STORE/.new"; do
        needed=
        for link in "${STORE%/*}"/*/"${tree##*/}"; do
            [ ! -L "$link" ] || needed=yes
        done
        [ -n "$needed" ] || { (expect_no_state "$tree") && rm -rf --one-file-system "$tree"; }
    done
    rmdir "$STORE" 2>/dev/null || true
)
