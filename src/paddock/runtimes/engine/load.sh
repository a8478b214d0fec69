# load.sh ENGINE load|import: takes an image from stdin; prints the names that it came with and that were not here before,
# and last its id. The name it is to have it gets in another call, once it is known that all of it has arrived.
set -eu
engine=$1 verb=$2
if [ "$verb" = import ]; then
    exec "$engine" import -
fi
known=$("$engine" images --format '{{.Repository}}:{{.Tag}}')
loaded=$("$engine" load | sed -n 's/^Loaded image[^:]*: *//p')
for name in $loaded; do
    case "$name" in sha256:*) continue ;; esac
    echo "$known" | grep -qxF "$name" || echo "$name"
done
"$engine" image inspect --format '{{.Id}}' "$(echo "$loaded" | tail -n 1)"
