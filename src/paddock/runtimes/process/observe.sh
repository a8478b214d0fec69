if [ -e "$state/.paddock/lease" ] && ! flock --shared --nonblock "$state/.paddock/lease" true; then
    echo "unit.run=active"
fi
