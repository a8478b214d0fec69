# Library: create the agent's container as a bundle describes it.
# Expects: the variables of bundle.env.
. ./image/layered.sh

create_from() { # BUNDLE NAME
    # shellcheck disable=SC2153 # bundle.env sets it
    image=$IMAGE
    [ -z "$TREE" ] || image=$(with_python "$IMAGE")
    entrypoint=$("$ENGINE" image inspect --format '{{range .Config.Entrypoint}}{{println .}}{{end}}' "$image") || return
    set -- "$1/create" "$2" "$image"
    while IFS= read -r word; do
        [ -z "$word" ] || set -- "$@" "$word"
    done <<WORDS
$entrypoint
WORDS
    sh "$@" >/dev/null
}
