# verified.sh - record that a bundle was verified
#
# Arguments: ROOT ID
set -eu
root=$1 id=$2

echo "$id" >"$root/answered"
rm -rf "$root/before" # there is nothing to go back from
