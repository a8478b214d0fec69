# Library: report the state of the agent's units, and the confinement that was dropped.
# Expects: $manager, $agent, $root.
. ./agent/report.sh
. ./systemd/manager.sh
. ./systemd/units.sh

inspect_units() {
    [ ! -e "$root/relaxed.conf" ] || sed -n \
        -e 's/^CapabilityBoundingSet=.*/capabilities/p' \
        -e 's/^NoNewPrivileges=.*/privileges/p' \
        -e 's/^SystemCallFilter=.*/system_calls/p' \
        -e 's/^ProtectProc=.*/proc/p' \
        -e 's/^ProtectKernelTunables=.*/sys/p' "$root/relaxed.conf" | report_lines dropped
    for unit in $(own_units); do
        pid=0 restarts=0 state=unknown since=
        while IFS='=' read -r name value; do
            case "$name" in
                MainPID) pid=$value ;;
                NRestarts) restarts=$value ;;
                ActiveState) state=$value ;;
                ActiveEnterTimestamp) since=$value ;;
            esac
        done <<SHOWN
$(systemctl show -p MainPID -p NRestarts -p ActiveState -p ActiveEnterTimestamp "$unit")
SHOWN
        part=${unit#"paddock-$agent."}
        report "process.${part%.service}" "$state $pid $restarts $(date -d "${since:-@0}" +%s)"
    done
}
