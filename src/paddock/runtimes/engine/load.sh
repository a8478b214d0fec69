# load.sh ENGINE load|import, after report.sh: takes an image from stdin; reports the names that it came with and that were
# not here before, and its id. The name it is to have it gets in another call, once it is known that all of it has arrived.
set -eu
engine=$1 verb=$2
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
