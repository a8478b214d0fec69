# install.sh STORE ID AGENT NAME PYTHON PROOF...: unpacks packages from stdin to the tree STORE/ID, makes the programs of
# the package NAME and proves that they work.
# A tree is made under another name and gets its own only when it is whole. The agent, where there is one already, gets
# its link first, so that nobody who prunes the store takes the tree away.
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
trap 'rm -rf "$new"' EXIT # what is not whole takes no room
rm -rf "$new"
"$python" -m venv --without-pip "$new"
packages=$(echo "$new/lib/python3."*/site-packages)
tar -xzf - -C "$packages" --no-same-owner
[ ! -d "$packages/.bin" ] || { mv "$packages/.bin"/* "$new/bin/" && rmdir "$packages/.bin"; }
"$new/bin/python" -m compileall -q -j 0 "$packages" || true # a package may ship files for other Pythons
"$new/bin/python" -B -c 'import importlib.metadata, os, sys
name, bin, python = sys.argv[1:]
for entry in importlib.metadata.distribution(name).entry_points.select(group="console_scripts"):
    with open(f"{bin}/{entry.name}", "w") as program:
        print(f"#!{python}\nimport sys\nfrom {entry.module} import {entry.attr}\nsys.exit({entry.attr}())", file=program)
    os.chmod(program.name, 0o755)' "$name" "$new/bin" "$store/$id/bin/python"
HOME="$new/home" "$new/bin/python" -B "$@" # whatever an import writes is not for the person's home
rm -rf "$new/home"
echo "$id" >"$new/manifest"
rm -rf "${store:?}/$id"
mv "$new" "$store/$id"
