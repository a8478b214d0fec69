if [ -e "$state/.paddock/lease" ] && ! flock --nonblock "$state/.paddock/lease" true; then
    echo "unit.run=active"
fi
