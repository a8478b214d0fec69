# install.sh ROOT ID PYTHON PROOF...: unpacks packages from stdin to the tree ROOT/ID and proves that they work.
# A tree is made under another name and gets its own only when it is whole.
set -eu
umask 022
root=$1 id=$2 python=$3
shift 3
mkdir -p "$root"
rm -rf "$root/.new"
"$python" -m venv --without-pip "$root/.new"
packages=$(echo "$root/.new/lib/python3."*/site-packages)
tar -xzf - -C "$packages" --no-same-owner
"$root/.new/bin/python" -m compileall -q -j 0 "$packages" || true # a package may ship files for other Pythons
HOME="$root/.new/home" "$root/.new/bin/python" -B "$@" # whatever an import writes is not for the person's home
rm -rf "$root/.new/home"
echo "$id" >"$root/.new/manifest"
rm -rf "${root:?}/$id"
mv "$root/.new" "$root/$id"
