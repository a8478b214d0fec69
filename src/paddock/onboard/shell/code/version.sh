# version.sh - report the version of a package in the code tree that the agent's current bundle names
#
# Arguments: ROOT STORE PACKAGE; PACKAGE is the name of a Python package, with underscores
# Output: a report
root=$1 store=$2 package=$3
. ./agent/report.sh

tree=$(sed -n 's/^TREE="\(.*\)"$/\1/p' "$root/current/bundle.env" 2>/dev/null)
for found in "$store/${tree:-none}"/lib/python3.*/site-packages/"$package"-*.dist-info; do
    [ ! -d "$found" ] || report version "$(basename "$found" .dist-info | sed 's/^[^-]*-//')"
done
report end ok
