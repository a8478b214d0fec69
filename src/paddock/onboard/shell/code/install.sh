# install.sh - unpack a code tree into the store, and prove that its programs work
#
# Arguments: STORE ID AGENT NAME PYTHON PROOF...; NAME is the package that brings the programs
# Environment: THROWAWAY is set in a container that is removed after this script
# Input: a tar.gz of packages
#
# The tree gets its name, and then its manifest, only when it is complete. The agent, if there is one, gets its link first, so that no other run
# prunes the tree. The packages are third-party code. Root only reads them, with an isolated Python (-I -S): the tree's own
# Python would run the .pth files of its packages. The proof imports the packages as nobody and without a network.
set -eu
umask 022
store=$1 id=$2 agent=$3 name=$4 python=$5
shift 5
. ./state/prove.sh

# Nix deletes programs that nothing refers to. It knows this link by its final path, so the tree has its name already.
keep_python() {
    case "$python" in
        /nix/store/*)
            nix-store --realise "$(echo "$python" | cut -d / -f 1-4)" --add-root "$store/$id/nix-root" --indirect >&2
            ;;
    esac
}

mkdir -p "$store"
exec 9<"${store%/*}"
flock 9
if [ -n "$agent" ]; then
    mkdir -p "${store%/*}/$agent"
    ln -sfn "../${store##*/}/$id" "${store%/*}/$agent/$id"
fi
new=$store/.new
home=
trap 'rm -rf "$new" ${home:+"$home"}' EXIT # an incomplete tree takes no space
rm -rf "$new"
"$python" -I -m venv --without-pip "$new"
packages=$(echo "$new/lib/python3."*/site-packages)
tar -xzf - -C "$packages" --no-same-owner
[ ! -d "$packages/.bin" ] || { mv "$packages/.bin"/* "$new/bin/" && rmdir "$packages/.bin"; }
[ ! -d "$packages/.data" ] || { mv "$packages/.data"/* "$new/" && rmdir "$packages/.data"; }
"$python" -I -S -m compileall -q -j 0 "$packages" || true # a package may ship files for other Pythons
"$python" -I -S -B -c 'import importlib.metadata, os, sys
name, packages, bin, python = sys.argv[1:]
found = next(iter(importlib.metadata.distributions(name=name, path=[packages])))
for entry in found.entry_points.select(group="console_scripts"):
    with open(f"{bin}/{entry.name}", "w") as program:
        print(f"#!{python}\nimport sys\nfrom {entry.module} import {entry.attr}\nsys.exit({entry.attr}())", file=program)
    os.chmod(program.name, 0o755)' "$name" "$packages" "$new/bin" "$store/$id/bin/python"

home=$(mktemp -d) # an import must not write to the person's home
prove "$new/bin/python" -B "$@" 9<&-
rm -rf "${store:?}/$id"
mv "$new" "$store/$id"
keep_python
echo "$id" >"$store/$id/manifest"
