if is_own "$own" && [ -e "$own/lease" ] && ! flock --shared --nonblock "$own/lease" true; then
    report unit "run active"
fi
