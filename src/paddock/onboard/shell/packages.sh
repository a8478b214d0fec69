# packages.sh - install packages of the distribution, or find a Python
#
# Arguments: install PACKAGE...
#            python VERSION...      reports the first Python of one of the versions; installs one if there is none
#            add-python VERSION...  in a container that becomes an image: installs a Python, and pip
# Environment: THROWAWAY is set in a container that is removed after this script
# Output of python: records NAME=VALUE, each with a NUL byte at its end: python=PATH VERSION ARCHITECTURE C_LIBRARY
set -u
. ./package_manager.sh
what=$1
shift

report() { # RECORD
    printf '%s\0' "$1" >&3
}

look() { # VERSION...
    # shellcheck disable=SC2046 # a name for each version
    for name in python3 $(printf 'python%s ' "$@"); do
        found=$("$name" -c 'import os, sys
base = getattr(sys, "_base_executable", sys.executable)
libc = "CS_GNU_LIBC_VERSION" in os.confstr_names and os.confstr("CS_GNU_LIBC_VERSION")
print(os.path.realpath(base), "%d.%d" % sys.version_info[:2], os.uname().machine, (libc or "other").replace(" ", "-"))' 2>/dev/null) || continue
        for version in "$@"; do
            case "$found" in *" $version "*) report "python=$found" && return 0 ;; esac
        done
    done
    return 1
}

install() { # PACKAGE...
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
    command -v python3 >/dev/null || set -- python3 "$@" # everything else that Paddock does here needs it
    install_packages "$@"
}

# Programs that the report is not for print to stderr.
exec 3>&1 1>&2
# Root looks for what every user can run, because the agent is another user: a Python in root's home does not count.
[ "$(id -u)" != 0 ] || PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
case "$what" in
    install) install "$@" ;;
    python)
        printf '\0report=1\0' >&3
        # A package that is installed in a throwaway container would be lost.
        if ! look "$@" && [ "$(id -u)" = 0 ] && [ -z "${THROWAWAY-}" ] && [ "$(installer)" != none ]; then
            install_packages python3 || exit 1
            look "$@" || true
        fi
        report end=ok
        ;;
    add-python)
        [ "$(installer)" = none ] || install_packages python3 || exit 1
        look "$@" || exit 69
        # The agent may install packages of Python.
        python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip || exit 1
        clean_packages
        ;;
esac
