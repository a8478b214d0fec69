# inventory.sh - report the packages of the distribution: those of the template that this machine was made from, or its own
#
# Arguments: MANIFEST; the file that template.sh has written
# Output: a report: from=template or from=machine, system=ID RELEASE, and package=KIND NAME VERSION [SOURCE] for each package
manifest=$1
. ./agent/report.sh
. ./code/system_path.sh
. ./code/package_manager.sh
. ./code/software.sh
[ "$(id -u)" != 0 ] || PATH=$SYSTEM_PATH

value_of() { # NAME; os-release is read as text, and not run
    sed -n "s/^$1=[\"']\{0,1\}\([A-Za-z0-9._-]*\)[\"']\{0,1\}\$/\1/p" /etc/os-release 2>/dev/null | head -n 1
}

list() {
    if [ -f "$manifest" ]; then LC_ALL=C sed -n '/^dpkg /p; /^rpm /p' "$manifest"; else list_software; fi
}

report from "$([ -f "$manifest" ] && echo template || echo machine)"
report system "$(value_of ID) $(value_of VERSION_ID)"
list | head -n 20001 | while IFS= read -r line; do report package "$line"; done
report end ok
