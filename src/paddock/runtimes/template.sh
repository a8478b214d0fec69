# template.sh PACKAGE...: what a template needs at the end. Prints its manifest: what was resolved.
set -eu
mkdir -p /opt/paddock
# What an engine has noted is about this machine: a clone finds out anew what its own disk can do.
systemctl stop docker.socket docker.service containerd.service 2>/dev/null || true
rm -rf /var/lib/docker /var/lib/containerd /var/lib/containers/storage
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/journal/* /tmp/* /root/.bash_history
{
    dpkg-query -W -f 'dpkg ${Package} ${Version}\n'
    for tree in /opt/paddock/.store/*; do
        # Isolated: the tree's own Python would run what its packages put into .pth files, as root.
        [ ! -e "$tree/manifest" ] || python3 -I -S -c 'import importlib.metadata as m, sys
for d in sorted(m.distributions(path=sys.argv[1:]), key=lambda d: d.name.lower()): print("pip", d.name, d.version)' \
            "$tree"/lib/python3*/site-packages
    done
} >/opt/paddock/.manifest
cat /opt/paddock/.manifest
sync
