# template.sh PACKAGE...: what a template needs at the end. Prints its manifest: what was resolved.
set -eu
mkdir -p /opt/paddock
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/journal/* /tmp/* /root/.bash_history
{
    dpkg-query -W -f 'dpkg ${Package} ${Version}\n'
    for tree in /opt/paddock/.store/*; do
        [ ! -e "$tree/manifest" ] || "$tree/bin/python" -c 'import importlib.metadata as m
for d in sorted(m.distributions(), key=lambda d: d.name.lower()): print("pip", d.name, d.version)'
    done
} >/opt/paddock/.manifest
cat /opt/paddock/.manifest
sync
