# engine/load.sh - load an image
#
# Arguments: ENGINE VERB; VERB is "load" or "import"
# Input: the image's archive
# Output: a report: brought=NAME for each name that the archive added, id=ID
#
# Another call names the image, when it is known that the whole archive has arrived.
set -eu
engine=$1 verb=$2
. ./agent/report.sh

load() {
    known=$("$engine" images --format '{{.Repository}}:{{.Tag}}')
    loaded=$("$engine" load | sed -n 's/^Loaded image[^:]*: *//p')
    echo "$loaded" | while read -r name; do
        case "$name" in sha256:*) continue ;; esac
        echo "$known" | grep -qxF -- "$name" || report brought "$name"
    done
    id=$("$engine" image inspect --format '{{.Id}}' "$(echo "$loaded" | tail -n 1)")
}

case "$verb" in
    import) id=$("$engine" import -) ;;
    load) load ;;
esac
report id "$id"
report end ok
