# inspect.sh AGENT ROOT, after report.sh and units.sh: reports each unit of the agent as NAME=STATE PID RESTARTS SINCE, and each
# way of confining it that was dropped.
agent=$1 root=$2
[ ! -e "$root/relaxed.conf" ] || sed -n \
    -e 's/^CapabilityBoundingSet=.*/capabilities/p' \
    -e 's/^NoNewPrivileges=.*/privileges/p' \
    -e 's/^SystemCallFilter=.*/system_calls/p' \
    -e 's/^ProtectProc=.*/proc/p' \
    -e 's/^ProtectKernelTunables=.*/sys/p' "$root/relaxed.conf" | report_lines dropped
: "${units:=/etc/systemd/system}"
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
