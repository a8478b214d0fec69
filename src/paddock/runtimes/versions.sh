# Shared: which code trees stay on the machine. They are in a store, named by their hash, and each agent has a folder
# beside it with links to those it needs: `current`, and `previous`, the one that was current before. What no agent
# links to goes with the next change. Uses $STORE and $AGENT.

# keep_version TREE: makes it the agent's current one, which it may be already.
keep_version() {
    [ -e "$STORE/$1/manifest" ] || fail 75 "the code $1 has gone meanwhile; run \`paddock up\` again"
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
    for link in "$versions"/*; do
        case "${link##*/}" in
            current | previous | "$1" | "$previous") ;;
            *) rm "$link" ;;
        esac
    done
    prune_store
}

# A state that lies where code and configuration are deleted would go with them. It is looked for right before that.
spare_states() { # FOLDER...
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
    spare_states "${STORE%/*}/$AGENT"
    rm -rf --one-file-system "${STORE%/*}/${AGENT:?}"
    prune_store
}

# Under the lock that installing holds too; what is about to be installed has its link already.
prune_store() (
    [ -d "$STORE" ] || exit 0
    exec 9<"${STORE%/*}"
    flock 9
    for tree in "$STORE"/* "$STORE/.new"; do
        needed=
        for link in "${STORE%/*}"/*/"${tree##*/}"; do
            [ ! -L "$link" ] || needed=yes
        done
        [ -n "$needed" ] || { (spare_states "$tree") && rm -rf --one-file-system "$tree"; }
    done
    rmdir "$STORE" 2>/dev/null || true
)
