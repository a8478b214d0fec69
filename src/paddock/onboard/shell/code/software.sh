# Library: list the installed packages of the distribution.
# Expects: the functions of package_manager.sh.

# Print each installed package with its version, and on Debian with its source package, which advisories name.
# shellcheck disable=SC2016 # the braces are dpkg's
list_software() {
    case "$(installer)" in
        apt-get)
            dpkg-query -W -f '${db:Status-Status} ${Package} ${Version} ${source:Package}\n' | sed -n 's/^installed /dpkg /p'
            ;;
        *) list_packages ;;
    esac
}
