# inspect.sh AGENT: prints each unit of the agent as NAME=STATE PID RESTARTS SINCE.
agent=$1
for link in "/etc/systemd/system/paddock-$agent-"*.service; do
    [ -L "$link" ] || continue
    unit=${link##*/}
    name=${unit#"paddock-$agent-"}
    MainPID=0 NRestarts=0 ActiveState=unknown ActiveEnterTimestamp=
    eval "$(systemctl show -p MainPID -p NRestarts -p ActiveState -p ActiveEnterTimestamp "$unit" | sed "s/=\(.*\)/='\1'/")"
    since=$(date -d "${ActiveEnterTimestamp:-@0}" +%s)
    echo "${name%.service}=$ActiveState $MainPID $NRestarts $since"
done
