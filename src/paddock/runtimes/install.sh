# install.sh STORE ID AGENT NAME PYTHON PROOF...: unpacks packages from stdin to the tree STORE/ID, makes the programs of
# the package NAME and proves that they work.
# A tree is made under another name and gets its own only when it is whole. The agent, where there is one already, gets
# its link first, so that nobody who prunes the store takes the tree away.
# The packages are third-party code. Root only reads them: its Python is isolated (-I -S), because even the start of the
# tree's own would run what a package puts into a .pth file. The proof imports them, as nobody and without a network.
set -eu
umask 022
store=$1 id=$2 agent=$3 name=$4 python=$5
shift 5
mkdir -p "$store"
exec 9<"${store%/*}"
flock 9
if [ -n "$agent" ]; then
    mkdir -p "${store%/*}/$agent"
    ln -sfn "../${store##*/}/$id" "${store%/*}/$agent/$id"
fi
new=$store/.new
home=
trap 'rm -rf "$new" ${home:+"$home"}' EXIT # what is not whole takes no room
rm -rf "$new"
"$python" -I -m venv --without-pip "$new"
packages=$(echo "$new/lib/python3."*/site-packages)
tar -xzf - -C "$packages" --no-same-owner
[ ! -d "$packages/.bin" ] || { mv "$packages/.bin"/* "$new/bin/" && rmdir "$packages/.bin"; }
"$python" -I -S -m compileall -q -j 0 "$packages" || true # a package may ship files for other Pythons
"$python" -I -S -B -c 'import importlib.metadata, os, sys
name, packages, bin, python = sys.argv[1:]
found = next(iter(importlib.metadata.distributions(name=name, path=[packages])))
for entry in found.entry_points.select(group="console_scripts"):
    with open(f"{bin}/{entry.name}", "w") as program:
        print(f"#!{python}\nimport sys\nfrom {entry.module} import {entry.attr}\nsys.exit({entry.attr}())", file=program)
    os.chmod(program.name, 0o755)' "$name" "$packages" "$new/bin" "$store/$id/bin/python"

# as_nobody PROGRAM...: without a program, whether nobody could run the tree's Python.
as_nobody='import os, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
if len(sys.argv) == 2:
    sys.exit(not os.access(sys.argv[1], os.X_OK))
os.execv(sys.argv[1], sys.argv[1:])'

# Becomes a program that has no privileges, no network but in a container that has none anyway, and no process that
# outlives it. A tree that only its owner can reach is run by its owner alone: an account's own, or root's in a foreground.
prove() {
    [ "$(id -u)" = 0 ] || exec "$@"
    alone="unshare --net --pid --fork --kill-child"
    if [ -n "${THROWAWAY-}" ]; then
        alone=
    elif ! $alone true 2>/dev/null; then
        echo "this machine has no network namespaces: the code was tried with the network" >&2
        alone=
    fi
    # shellcheck disable=SC2086 # several words
    "$python" -I -S -c "$as_nobody" "$1" || exec $alone "$@"
    chown 65534:65534 "$home"
    # shellcheck disable=SC2086 # several words
    exec $alone "$python" -I -S -c "$as_nobody" "$@"
}

home=$(mktemp -d) # whatever an import writes is not for the person's home
(cd "$home" && HOME="$home" && export HOME && prove "$new/bin/python" -B "$@" 9<&-)
echo "$id" >"$new/manifest"
rm -rf "${store:?}/$id"
mv "$new" "$store/$id"
