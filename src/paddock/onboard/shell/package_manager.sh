# Library: packages of the distribution, with apt or with dnf. Elsewhere nothing is installed, and programs are looked for.
# Expects: nothing.

# Print the program that installs packages here, or "none".
installer() {
    for program in apt-get dnf; do
        if has_program "$program"; then
            echo "$program"
            return
        fi
    done
    echo none
}

has_program() { # PROGRAM; functions and commands of the shell itself do not count
    case "$(command -v "$1")" in /*) ;; *) return 1 ;; esac
}

# Print the program for which Paddock asks for a package; nothing for a package that only the file names.
program_of() { # PACKAGE
    case "$1" in
        chromium) echo /usr/bin/chromium ;; # the recipe that uses it names this path
        git | podman | runc) echo "$1" ;;
        docker.io) echo docker ;;
        nftables) echo nft ;;
        ripgrep) echo rg ;;
        uidmap) echo newuidmap ;;
    esac
}

# Print packages by their names in Fedora and its relatives.
named_by_dnf() { # PACKAGE...
    for package; do
        case "$package" in
            docker.io) echo moby-engine ;;
            uidmap) echo shadow-utils ;;
            *) echo "$package" ;;
        esac
    done
}

# Whether a package is here. A program counts, whoever installed it, if Paddock asks for the package. Without a database
# of packages, a program with the name of the package is all that can be looked for.
# shellcheck disable=SC2016 # the braces are dpkg's
has_package() { # PACKAGE
    brings=$(program_of "$1")
    [ -z "$brings" ] || ! has_program "$brings" || return 0
    case "$(installer)" in
        apt-get) [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
        dnf) rpm -q --quiet --whatprovides "$(named_by_dnf "$1")" >/dev/null 2>&1 ;;
        *) [ -z "$brings" ] && has_program "$1" ;;
    esac
}

# Print the command that a person would run.
install_command() { # PACKAGE...
    case "$(installer)" in
        apt-get) echo "apt-get install -y $*" ;;
        dnf) echo "dnf install -y $(named_by_dnf "$@" | paste -sd ' ')" ;;
    esac
}

# Install packages, and fail with a sentence if one of them is not here afterwards.
# shellcheck disable=SC2046 # several packages
install_packages() { # PACKAGE...
    case "$(installer)" in
        apt-get)
            { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
                apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 -- "$@"; } </dev/null >&2 || return
            ;;
        dnf)
            dnf install -y -q --setopt=install_weak_deps=False $(named_by_dnf "$@") </dev/null >&2 || return
            ;;
        *)
            echo "there is neither apt-get nor dnf here to install packages with: $*" >&2
            return 1
            ;;
    esac
    for package; do
        has_package "$package" || {
            echo "$(installer) has ended well, and still there is no package $package: name the one that is installed" >&2
            return 1
        }
    done
}

# Delete what was downloaded.
clean_packages() {
    case "$(installer)" in
        apt-get) apt-get clean && rm -rf /var/lib/apt/lists/* ;;
        dnf) dnf clean all -q ;;
    esac
}
