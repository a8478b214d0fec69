# survey.sh - report what a host offers to an agent; changes nothing
# Arguments: none
# Output: a report, see channels/__init__.py. What programs of the host print is cut to 2000 characters.

report() { # NAME VALUE
    printf '%s=%.2000s\0' "$1" "$2" >&3
}

# An engine or a manager that hangs must not hold up the others.
briefly() { # COMMAND...
    if command -v timeout >/dev/null; then timeout 10 "$@"; else "$@"; fi </dev/null 2>/dev/null
}

exec 3>&1 1>&2
printf '\0' >&3
report report 1

uid=$(id -u)
account=$(id -un)
report system "$(uname -s)"
report architecture "$(uname -m)"
report uid "$uid"
report account "$account"
report init "$(cat /proc/1/comm 2>/dev/null)"
report release "$(head -c 2000 /etc/os-release 2>/dev/null)"
[ ! -e /etc/NIXOS ] || report nixos yes
report libc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"

# The agent is another user than root, so a Python in root's home does not count.
[ "$uid" != 0 ] || PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin
for name in python3 python3.13 python3.12 python3.11; do
    found=$(command -v "$name") || continue
    report python "$(briefly "$found" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
done
for name in apt-get dnf; do
    if command -v "$name" >/dev/null; then report installs "$name"; fi
done

export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$uid}"
if [ "$uid" != 0 ]; then
    report manager "$(briefly systemctl --user is-system-running)"
    report lingers "$(briefly loginctl show-user "$account" --property Linger --value)"
    if briefly sudo -n true; then report sudo yes; fi
fi

for name in docker podman; do
    command -v "$name" >/dev/null || continue
    report installed "$name"
done
if command -v docker >/dev/null; then
    report docker "$(briefly docker info --format '{{.ServerVersion}} {{.SecurityOptions}}')"
fi
if command -v podman >/dev/null; then
    report podman "$(briefly podman info --format '{{.Version.Version}} {{.Host.Security.Rootless}}')"
fi

if [ "$uid" = 0 ]; then where=/var/lib; else where=$HOME; fi
report free "$(df -Pk "$where" 2>/dev/null | awk 'END { print $4 }')"
report end ok
