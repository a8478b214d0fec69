# load.sh ENGINE load|import: takes an image from stdin and prints its id. Its name it gets in another call, once it is
# known that all of it has arrived.
set -eu
engine=$1 verb=$2
if [ "$verb" = import ]; then
    "$engine" import -
else
    loaded=$("$engine" load)
    "$engine" image inspect --format '{{.Id}}' "$(echo "$loaded" | sed -n 's/^Loaded image[^:]*: *//p' | tail -n 1)"
fi
