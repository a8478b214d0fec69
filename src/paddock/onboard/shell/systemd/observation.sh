# Library: report the agent's units.
# Expects: $manager, $root, $state_link, $agent, $formers.
. ./agent/report.sh
. ./agent/formers.sh
. ./systemd/closing.sh
. ./systemd/manager.sh
. ./systemd/units.sh

has_failed() { # UNIT: whether the unit has failed, was restarted after a failure, or is about to be restarted
    systemctl show --property SubState,NRestarts "$1" | grep -qx 'SubState=\(failed\|auto-restart\)\|NRestarts=[1-9].*'
}

# Report how often a unit was restarted whose process ends again and again, or which has failed, and how it ended last.
# A restart long ago does not count.
report_ends() { # UNIT
    restarts=0 sub='' code=0 status=0 since=''
    while IFS='=' read -r name value; do
        case "$name" in
            NRestarts) restarts=$value ;;
            SubState) sub=$value ;;
            ExecMainCode) code=$value ;;
            ExecMainStatus) status=$value ;;
            ActiveEnterTimestamp) since=$value ;;
        esac
    done <<SHOWN
$(systemctl show -p NRestarts -p SubState -p ExecMainCode -p ExecMainStatus -p ActiveEnterTimestamp "$1")
SHOWN
    case "$sub" in
        failed | auto-restart*) ;;
        *)
            [ "$restarts" -gt 0 ] || return 0
            [ $(($(date +%s) - $(date -d "${since:-@0}" +%s))) -lt 60 ] || return 0
            # The next process runs, so systemd has forgotten how the last one ended.
            ended=$(journalctl -q -u "$1" -o cat -n 100 |
                sed -n 's/.*Main process exited, code=\([a-z]*\), status=\([0-9]*\).*/\1 \2/p' | tail -n 1)
            code=${ended% *} status=${ended#* }
            ;;
    esac
    case "$code" in
        1 | exited) how="exit code $status" ;;
        2 | 3 | killed | dumped) how="signal $status" ;;
        *) how= ;;
    esac
    report ends "$1 $restarts $how"
}

observe_units() {
    for unit in $(own_units); do
        report unit "$unit $(systemctl is-active "$unit")"
        case "$unit" in
            *.lease.service | *.egress.service) ;; # they end and start again while the agent has to wait
            *) report_ends "$unit" ;;
        esac
        # The last message for Paddock, or the last error.
        ! has_failed "$unit" || report said "$(journalctl -q -u "$unit" -o cat -n 30 |
            sed -n -e 's/^paddock: //p' -e t -e '/error/Ip' | tail -n 1 | cut -b 1-500)"
    done
    for former in $formers; do
        locate_former "$former"
        for unit in $(units_of "$former_root"); do
            report former "$former"
            report former.unit "$unit $(systemctl is-active "$unit")"
        done
    done
    [ ! -e "$root/relaxed.conf" ] || report note \
        "this machine does not support all confinement; dropped: $(sed -n 's/=.*//p' "$root/relaxed.conf" | paste -sd ' ')"
    [ ! -e "$root/limits.conf" ] || sed '/^\[/d' "$root/limits.conf" | report_lines limit
    case "$manager" in
        user) observe_account ;;
        system)
            report_account
            ! is_nixos || report system nixos
            ;;
    esac
}

is_nixos() {
    [ -e /etc/NIXOS ] || grep -qxE 'ID="?nixos"?' /etc/os-release 2>/dev/null
}

report_account() { # of the current bundle, which belongs to root
    [ -e "$root/current/bundle.env" ] || return 0
    # shellcheck source=/dev/null # written by Paddock
    account=$(OWNER='' USER_UID='' GROUP_GID='' && . "$root/current/bundle.env" &&
        echo "$OWNER:$USER_UID:${GROUP_GID:-$USER_UID}")
    report account "$account"
    ! is_account_of_paddock "${account%%:*}" || ways_in "${account%%:*}" | report_lines account.open
}

observe_account() {
    if systemctl show-environment >/dev/null 2>&1; then
        report init "systemd --user"
    else
        report init "no manager for this account"
    fi
    [ "$(loginctl show-user "$(id -un)" --property Linger --value 2>/dev/null)" = yes ] ||
        report note "$(name_of "$agent") ends when its account logs out; this keeps it running: sudo loginctl enable-linger $(id -un)"
}
