# packages.sh - install packages of the distribution
#
# Arguments: PACKAGE...
set -eu

if ! command -v apt-get >/dev/null; then
    echo "there is no apt-get here; install these packages yourself: $*" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "run this as root first: apt-get install -y $*" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null
apt-get install -y -qq --no-install-recommends -- "$@" </dev/null
