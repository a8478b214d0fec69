# python.sh - report the first Python of one of the versions, and install one if there is none
#
# Arguments: VERSION...
# Environment: THROWAWAY is set in a container that is removed after this script
# Output: a report: python=PATH VERSION ARCHITECTURE C_LIBRARY
. ./agent/report.sh
. ./code/system_path.sh
. ./code/package_manager.sh

look() {
    # shellcheck disable=SC2046 # a name for each version
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

# Root looks for a Python that every user can run, because the agent is another user. A Python in root's home does not
# count.
[ "$(id -u)" != 0 ] || PATH=$SYSTEM_PATH
# A package that is installed in a throwaway container would be lost.
if ! look "$@" && [ "$(id -u)" = 0 ] && [ -z "${THROWAWAY-}" ] && [ "$(installer)" != none ]; then
    install_packages python3 || exit 1
    look "$@" || true
fi
report end ok
