# python.sh VERSION..., after report.sh: reports path, version, architecture and C library of the first Python that has one
# of the versions.
look() {
    for name in python3 $(printf 'python%s ' "$@"); do
        found=$("$name" -c 'import os, sys
base = getattr(sys, "_base_executable", sys.executable)
libc = "CS_GNU_LIBC_VERSION" in os.confstr_names and os.confstr("CS_GNU_LIBC_VERSION")
print(os.path.realpath(base), "%d.%d" % sys.version_info[:2], os.uname().machine, (libc or "other").replace(" ", "-"))' 2>/dev/null) || continue
        for version in "$@"; do
            case "$found" in *" $version "*) report python "$found" && return 0 ;; esac
        done
    done
    return 1
}

# As root the agent is another user: only what everyone can reach counts, not a Python in root's home.
[ "$(id -u)" != 0 ] || PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# In a container that is gone after this, installing is no help.
if ! look "$@" && [ "$(id -u)" = 0 ] && [ -z "${THROWAWAY-}" ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3; } \
        </dev/null >&2 || exit 1
    look "$@" || true
fi
