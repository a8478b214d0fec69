# inspect.sh AGENT ROOT: prints each unit of the agent as NAME=STATE PID RESTARTS SINCE, and each way of confining it that
# was dropped.
agent=$1 root=$2
[ ! -e "$root/relaxed.conf" ] || sed -n \
    -e 's/^CapabilityBoundingSet=.*/dropped=capabilities/p' \
    -e 's/^NoNewPrivileges=.*/dropped=privileges/p' \
    -e 's/^SystemCallFilter=.*/dropped=system_calls/p' \
    -e 's/^ProtectProc=.*/dropped=proc/p' \
    -e 's/^ProtectKernelTunables=.*/dropped=sys/p' "$root/relaxed.conf"
for link in "${units:=/etc/systemd/system}/paddock-$agent-"*.service; do
    [ -L "$link" ] || continue
    unit=${link##*/}
    name=${unit#"paddock-$agent-"}
    MainPID=0 NRestarts=0 ActiveState=unknown ActiveEnterTimestamp=
    eval "$(systemctl show -p MainPID -p NRestarts -p ActiveState -p ActiveEnterTimestamp "$unit" | sed "s/=\(.*\)/='\1'/")"
    since=$(date -d "${ActiveEnterTimestamp:-@0}" +%s)
    echo "${name%.service}=$ActiveState $MainPID $NRestarts $since"
done
