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
# Two agents on one machine may need packages at the same time, and apt does not wait for the lock of its lists.
exec 9>/run/paddock-packages.lock
flock --timeout 900 9 || {
    echo "another run has been installing packages here for 15 minutes" >&2
    exit 1
}
apt-get update -qq </dev/null
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 -- "$@" </dev/null
