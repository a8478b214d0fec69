# shellcheck shell=bash
# Installs what ./test and ./demo need. Both source this file. It changes to the root of the checkout and sets
# $venv (the virtual environment) and $python (its interpreter).
#
#   PADDOCK_VENV   where the environment goes. Otherwise .venv in the checkout, or, if that cannot be written,
#                  a directory in the user's cache.
#
# If nothing has changed, it only compares checksums. All messages go to stderr.

system_packages=(
  lxc uidmap mmdebstrap debian-archive-keyring dnsmasq-base iptables iproute2 nftables
  e2fsprogs openssh-client openssl zstd util-linux procps faketime restic age
)
# Programs of those packages, to name them where there is no apt.
system_programs=(lxc-start newuidmap mmdebstrap dnsmasq iptables ip nft mkfs.ext4 ssh openssl zstd losetup ps faketime
  restic age)

say() { printf '==> %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$1" >&2
  if [ -n "${2:-}" ]; then printf '  %s\n' "$2" >&2; fi
  exit 1
}

# Give every run the same environment: under cron, sudo, su without a dash, CI without stdin, a service account.
normalise_environment() {
  local home
  { : <&0; } 2>/dev/null || exec </dev/null
  case :${PATH:=/usr/local/bin:/usr/bin:/bin}: in
    *:/usr/sbin:*) ;;
    *) PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin ;; # dpkg refuses to work without them
  esac
  export PATH
  unset PYTHONHOME PYTHONPATH CDPATH
  if [ -n "${TMPDIR:-}" ] && ! { [ -d "$TMPDIR" ] && [ -w "$TMPDIR" ]; }; then unset TMPDIR; fi
  # pip, uv and Paddock use the user's cache. HOME may be unset, missing or, under sudo, another user's.
  case ${XDG_CACHE_HOME:-} in /*) return ;; esac
  unset XDG_CACHE_HOME
  home=${HOME:-}
  if [ "${home:0:1}" = / ] && [ -O "$home" ] && [ -w "$home" ]; then return; fi
  home=$(getent passwd "$EUID" 2>/dev/null | cut -d: -f6)
  if ! { [ -O "$home" ] && [ -w "$home" ]; }; then
    home=${TMPDIR:-/tmp}/paddock-home-of-uid-$EUID
    mkdir -m 700 -- "$home" 2>/dev/null
  fi
  if [ -O "$home" ] && [ ! -L "$home" ]; then export XDG_CACHE_HOME=$home/.cache; fi
}

# Sets $stamp to two lines that describe an up-to-date $venv: its packages, and the checkout of Paddock that is
# linked into it. Fails if the Python of the environment does not run.
compute_stamp() {
  local tag lock_sum project_sum
  tag=$("$venv/bin/python" -I -S -c \
    'import os, sys; print(sys.implementation.cache_tag, os.uname().machine)' 2>/dev/null) || return
  { read -r lock_sum _ && read -r project_sum _; } < <(sha256sum requirements.lock pyproject.toml) || return
  stamp="packages $lock_sum for $tag in $venv"$'\n'"paddock $project_sum from $checkout"
}

# Sets $state of $venv: current, relink (the packages are right, the link to Paddock is not) or stale.
examine() {
  local have
  state=stale
  if [ ! -r "$venv/paddock.stamp" ] || ! compute_stamp; then return; fi
  have=$(<"$venv/paddock.stamp")
  if [ "$have" = "$stamp" ]; then
    state=current
  elif [ "${have%%$'\n'*}" = "${stamp%%$'\n'*}" ]; then
    state=relink
  fi
}

# Succeeds if a path can be written, or created in its directory.
writable() { [ -w "$1" ] || { [ ! -e "$1" ] && [ -w "${1%/*}" ]; }; }

choose_venv() {
  if [ -n "${PADDOCK_VENV:-}" ]; then
    venv=$PADDOCK_VENV
    examine
    if [ "$state" = current ]; then return; fi
    # An environment is emptied before it is made again, so it must be one that Paddock has made.
    if [ ! -e "$venv/paddock.log" ] && [ -n "$(ls -A -- "$venv" 2>/dev/null)" ]; then
      die "PADDOCK_VENV names $venv, which is not empty and was not made by Paddock." \
        "Name a directory that does not exist yet."
    fi
    mkdir -p -- "$venv" 2>/dev/null
    [ -w "$venv" ] || die "PADDOCK_VENV names $venv, which cannot be written."
  else
    venv=$checkout/.venv
    examine
    if [ "$state" = current ] || { [ -w "$checkout" ] && writable "$venv"; }; then return; fi
    use_cached_venv
  fi
}

# Used if the checkout, or a .venv in it, belongs to another user.
use_cached_venv() {
  local cache=${XDG_CACHE_HOME:-${HOME:-}/.cache}/paddock name
  (umask 077 && mkdir -p -- "$cache") 2>/dev/null
  if ! { [ -O "$cache" ] && [ -w "$cache" ]; }; then
    die "neither the checkout nor $cache can be written." "PADDOCK_VENV=<a directory of yours> helps."
  fi
  name=$(printf %s "$checkout" | sha256sum)
  venv=$cache/venv-${name:0:12}
  examine
}

# Empties $venv, except its log, which marks it as made by Paddock.
clear_venv() {
  rm -f -- "$venv/paddock.stamp" || return
  if [ -L "$venv" ] || [ ! -d "$venv" ]; then rm -f -- "$venv" || return; fi
  mkdir -p -- "$venv" && : >>"$venv/paddock.log" &&
    find "$venv" -mindepth 1 -maxdepth 1 ! -name paddock.log -exec rm -rf -- {} +
}

# Makes an empty environment with the first Python that is new enough and has a working venv module. Sets $pythons
# to the versions found. The module is tried, because distributions package its parts separately. Returns 2 if an
# existing environment cannot be emptied.
make_venv() {
  local name candidate version path=":$PATH:"
  path=${path//":$venv/bin:"/:} # this environment, if activated, is about to be removed
  pythons=
  for name in python3 python3.11 python3.12 python3.13 python3.14; do
    while read -r candidate; do
      version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
      case "$pythons " in *" $version "*) ;; *) pythons+=" $version" ;; esac
      case $version in 3.1[1-9] | 3.[2-9][0-9]) ;; *) continue ;; esac
      clear_venv 2>>"$log" || return 2
      "$candidate" -m venv "$venv" >>"$log" 2>&1 && return
    done < <(PATH=$path && type -aP "$name")
  done
  return 1
}

is_debian() { command -v apt-get && command -v dpkg-query; } >/dev/null

# Sets $missing to the system packages that are not installed. Asks dpkg, not the network.
find_missing_packages() {
  local installed name
  missing=()
  if [ "$EUID" -ne 0 ]; then return; fi
  if ! is_debian; then
    for name in "${system_programs[@]}"; do
      command -v "$name" >/dev/null || missing+=("$name")
    done
    if [ ${#missing[@]} -gt 0 ]; then
      say "this is not Debian: real containers need ${missing[*]} from your package manager; continuing without them"
    fi
    missing=()
    return
  fi
  # shellcheck disable=SC2016 # the braces are dpkg's
  installed=$(dpkg-query -W -f='=${db:Status-Status}=${Package}=' "${system_packages[@]}" lxc-pve 2>/dev/null)
  for name in "${system_packages[@]}"; do
    case $name:$installed in
      *"=installed=$name="*) ;;
      lxc:*=installed=lxc-pve=*) ;; # Proxmox VE's own LXC, which excludes Debian's
      *) missing+=("$name") ;;
    esac
  done
}

# Installs packages by name. A failure is reported and not fatal: most of Paddock runs without them.
apt_install() {
  local said
  # A new name: in a directory that everyone may write to, a fixed one could belong to another user.
  said=$(mktemp "${TMPDIR:-/tmp}/paddock-apt.XXXXXX") || die "no temporary file can be made."
  say "installing system packages: $*"
  # `update` may fail for one repository only (a Proxmox node without a subscription), so only the exit code of
  # `install` counts. --no-remove: installed packages are never removed.
  if (
    umask 022
    export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l
    apt-get -q -o Acquire::Retries=1 update
    apt-get -q -o Acquire::Retries=1 -o DPkg::Lock::Timeout=120 \
      install -y --no-install-recommends --no-remove "$@"
  ) </dev/null >"$said" 2>&1 9<&-; then
    rm -f -- "$said"
    return
  fi
  say "apt-get could not install them; continuing without them. Its output:"
  { grep '^E: ' "$said" || cat -- "$said"; } | tail -n 3 | sed 's/^/    /' >&2
  rm -f -- "$said"
  return 1
}

# Prints the package with a Python that is new enough, on this Debian or Ubuntu.
python_package() {
  local minor
  case $pythons in
    '' | *' '3.1[1-9]* | *' '3.[2-9][0-9]*) ;;
    *)
      for minor in 14 13 12 11; do
        if apt-cache show "python3.$minor-venv" >/dev/null 2>&1; then
          echo "python3.$minor-venv"
          return
        fi
      done
      ;;
  esac
  echo python3-venv
}

no_python() {
  local sudo='sudo ' update=
  rm -f -- "$log"
  if ! is_debian; then
    die "Paddock needs Python 3.11 or newer with a working venv module (found:${pythons:- none})." \
      "Install it with your system's package manager."
  fi
  if [ "$EUID" -eq 0 ]; then sudo=; fi
  if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then update="${sudo}apt-get update && "; fi
  die "Paddock needs Python 3.11 or newer with a working venv module (found:${pythons:- none}). Run:" \
    "$update${sudo}apt-get install -y $(python_package)"
}

make_venv_or_explain() {
  make_venv
  case $? in
    0) return ;;
    2)
      # Parts of it belong to another user, for example because root ran ./test here.
      if [ "$venv" != "$checkout/.venv" ]; then fail_with_log "$venv cannot be emptied"; fi
      use_cached_venv
      if [ "$state" != stale ] || make_venv; then return; fi
      ;;
  esac
  if [ "$EUID" -ne 0 ] || ! is_debian; then no_python; fi
  if apt_install python3 python3-venv "${missing[@]}"; then missing=(); fi
  if make_venv; then return; fi
  apt_install "$(python_package)"
  make_venv || no_python
}

fail_with_log() {
  tail -n 8 -- "$log" | cut -c 1-160 | sed 's/^/    /' >&2
  die "$1." "The whole log: $log"
}

pip_install() {
  env -u PIP_TARGET -u PIP_PREFIX PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    "$venv/bin/python" -m pip --quiet --no-input install "$@" >>"$log" 2>&1 9<&- ||
    fail_with_log "pip could not install the Python packages"
}

# ./test and ./demo may be started together: one installs, the other waits. Without flock nobody waits.
lock() {
  exec 9<"${venv%/*}" && command -v flock >/dev/null || return
  if ! flock -n 9; then
    say "waiting for another run to finish installing"
    flock 9
  fi
}

set_up() {
  log=$(mktemp "${TMPDIR:-/tmp}/paddock-setup.XXXXXX") || die "no temporary file can be made."
  if [ "$state" != current ]; then
    lock
    examine
    if [ "$state" = stale ]; then make_venv_or_explain; fi
    if [ "$state" = stale ]; then
      say "installing Python packages (about 30 s, only when they change)"
      pip_install --require-hashes --no-deps -r requirements.lock
    fi
    if [ "$state" != current ]; then
      rm -f -- "$venv/paddock.stamp"
      pip_install --no-deps --no-build-isolation --editable .
      compute_stamp || fail_with_log "the Python environment in $venv does not run"
      cat -- "$log" >"$venv/paddock.log"
      printf '%s\n' "$stamp" >"$venv/paddock.stamp"
    fi
    exec 9<&-
  fi
  if [ ${#missing[@]} -gt 0 ]; then apt_install "${missing[@]}"; fi
  rm -f -- "$log"
}

normalise_environment
if [ -n "${PADDOCK_VENV:-}" ]; then PADDOCK_VENV=$(readlink -m -- "$PADDOCK_VENV"); fi
checkout=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P) || exit
cd -- "$checkout" || exit
choose_venv
find_missing_packages
if [ "$state" != current ] || [ ${#missing[@]} -gt 0 ]; then set_up; fi
# shellcheck disable=SC2034 # for the scripts that source this file
python=$venv/bin/python
