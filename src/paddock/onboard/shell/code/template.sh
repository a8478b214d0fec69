# template.sh - finish a template: delete caches, logs and engine data, and write the manifest
#
# Arguments: none
# Output: the manifest: each package with its version
set -eu
. ./code/package_manager.sh
. ./code/software.sh

mkdir -p /opt/paddock
# An engine's data describes this machine. A clone detects the abilities of its own disk.
systemctl stop docker.socket docker.service containerd.service 2>/dev/null || true
rm -rf /var/lib/docker /var/lib/containerd /var/lib/containers/storage
clean_packages
rm -rf /var/log/journal/* /tmp/* /root/.bash_history
{
    list_software
    for tree in /opt/paddock/.store/*; do
        # Isolated: the tree's own Python would run the .pth files of its packages, as root.
        [ ! -e "$tree/manifest" ] || python3 -I -S -c 'import importlib.metadata as m, sys
for d in sorted(m.distributions(path=sys.argv[1:]), key=lambda d: d.name.lower()): print("pip", d.name, d.version)' \
            "$tree"/lib/python3*/site-packages
    done
} >/opt/paddock/.manifest
cat /opt/paddock/.manifest
sync
