# Library: run a program of a code tree to prove that the tree works.
# Expects: $python, an interpreter outside the tree; $home, an empty directory.
. ./agent/without_secrets.sh

# Arguments: PROGRAM [ARGUMENT...]. With a program alone, it ends with 77 if nobody could not run that program.
as_nobody='import os, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
if len(sys.argv) == 2:
    sys.exit(0 if os.access(sys.argv[1], os.X_OK) else 77)
os.execv(sys.argv[1], sys.argv[1:])'

# Fail unless the only reason is that a tree is for its owner alone. The store of the machine is for other accounts.
expect_owner() { # CODE PROGRAM
    case "$1 $2" in
        "77 /opt/paddock/"*)
            echo "other accounts cannot reach $2: give the directories above it mode 755" >&2
            exit 1
            ;;
        "77 "*) ;;
        *) exit 1 ;;
    esac
}

# Become a program without privileges and without a network, whose processes all end with it. A throwaway container has
# no network anyway. A tree that only its owner can reach runs as its owner: an account, or root for runtime process.
prove() ( # PROGRAM [ARGUMENT...]
    cd "$home"
    export HOME="$home"
    [ "$(id -u)" = 0 ] || without_secrets "$@"
    alone="unshare --net --pid --fork --kill-child"
    if [ -n "${THROWAWAY-}" ]; then
        alone=
    elif ! $alone true 2>/dev/null; then
        echo "this machine has no network namespaces: the code was tested with access to the network" >&2
        alone=
    fi
    reached=0
    "$python" -I -S -c "$as_nobody" "$1" || reached=$?
    if [ "$reached" != 0 ]; then
        [ -n "${THROWAWAY-}" ] || expect_owner "$reached" "$1"
        # shellcheck disable=SC2086 # several words
        without_secrets $alone "$@"
    fi
    chown 65534:65534 "$home"
    # shellcheck disable=SC2086 # several words
    without_secrets $alone "$python" -I -S -c "$as_nobody" "$@"
)
