#!/bin/sh
# The desktop's first process: starts everything, takes in the exits of orphans, and ends all of it on TERM.
# As PID 1 of a container its end is the container's end.
set -u
export HOME="${HOME:-/home/user}" USER=user LOGNAME=user SHELL=/bin/bash DISPLAY="${DISPLAY:-:0}"
export LANG=en_US.UTF-8 LC_ALL=en_US.UTF-8 LANGUAGE=en_US
export XDG_RUNTIME_DIR=/run/user/1000 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus
export XDG_CURRENT_DESKTOP=Deskyard XDG_SESSION_TYPE=x11 XDG_CONFIG_DIRS=/etc/xdg
export GTK_MODULES=gail:atk-bridge QT_ACCESSIBILITY=1 SAL_USE_VCLPLUGIN=gtk3 GTK_OVERLAY_SCROLLING=0
export GIO_USE_VOLUME_MONITOR=unix GVFS_REMOTE_VOLUME_MONITOR_IGNORE=1 GSETTINGS_BACKEND=dconf
export PATH=${DESKYARD_BIN:+$DESKYARD_BIN:}/opt/deskyard/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH= DESKYARD_SESSION=$$
unset PYTHONPATH
run=${DESKYARD_RUN:-/run/deskyard}
log=$run/session.log
umask 022
cd "$HOME" || exit 1
exec >>"$log" 2>&1 </dev/null

trap 'trap "" TERM; kill -TERM -- -1 2>/dev/null; exit 0' TERM INT
rm -f "$XDG_RUNTIME_DIR/bus" "$run/agent.sock" "$run/rfb.sock"
for folder in /tmp/.X11-unix /tmp/.ICE-unix; do [ -d $folder ] || mkdir -m 1777 $folder; done

dbus-daemon --session --address="$DBUS_SESSION_BUS_ADDRESS" --nofork --nopidfile --nosyslog &
Xvnc "$DISPLAY" -geometry 1920x1080 -depth 24 -dpi 96 -rfbport -1 -rfbunixpath "$run/rfb.sock" -rfbunixmode 0600 \
    -SecurityTypes None -AlwaysShared -AcceptSetDesktopSize=0 -SendPrimary=0 -nolisten tcp -ac -br \
    -s 0 -dpms -noreset &
x=$!
# The allocator keeps what one screenshot needs for the next: without this, page faults are most of its time.
keep=glibc.malloc.trim_threshold=33554432:glibc.malloc.mmap_threshold=33554432
GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:$keep \
    PYTHONPATH=/opt/deskyard:/opt/deskyard/site /usr/bin/python3 -m guest.server &

socket=/tmp/.X11-unix/X${DISPLAY#:}
until [ -S "$socket" ]; do kill -0 $x 2>/dev/null || exit 1; sleep 0.01; done
openbox --config-file "$HOME/.config/openbox/rc.xml" &
tint2 -c "$HOME/.config/tint2/tint2rc" &
pcmanfm --desktop &
if [ -x /usr/bin/pulseaudio ]; then
    pulseaudio --daemonize=no --exit-idle-time=-1 --log-target=stderr --log-level=error -n \
        -L "module-native-protocol-unix" -L "module-null-sink sink_name=speakers" &
    # Not at its maximum: turning the sound up or down is something a task may ask for.
    (for try in 1 2 3 4 5 6 7 8 9; do pactl set-sink-volume speakers 60% && break; sleep 0.2; done) 2>/dev/null &
fi

# The X server's end is the desktop's end: nothing can be done on a desktop without a screen.
while kill -0 $x 2>/dev/null; do wait $x; done
kill -TERM -- -1 2>/dev/null
exit 0
