# packages.sh - install packages of the distribution
#
# Arguments: PACKAGE...
set -eu
. ./code/package_manager.sh

if [ "$(id -u)" != 0 ] && [ "$(installer)" != none ]; then
    echo "run this as root first: $(install_command "$@")" >&2
    exit 1
fi
# Two agents on one machine may need packages at the same time, and apt does not wait for the lock of its lists.
exec 9>/run/paddock-packages.lock
flock --timeout 900 9 || {
    echo "another run has been installing packages here for 15 minutes" >&2
    exit 1
}
install_packages "$@"
