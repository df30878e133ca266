#!/bin/sh
# What the desktop needs made once, as root, after its packages and files are there. HOME_DIR is the user's home.
set -eu
home=${HOME_DIR:-/home/user} uid=${DESK_UID:-1000} gid=${DESK_GID:-1000}
mkdir -p "$home/Desktop" "$home/Documents" "$home/Downloads" "$home/Music" "$home/Pictures" "$home/Videos" \
    "$home/.local/share/applications"
chown -R $uid:$gid "$home"
chmod 755 /opt/deskyard/bin/*

# A layer keeps whole seconds only, and a cache that is older or newer than its folder by a fraction is no cache: each
# desktop would then read all fonts again before it shows a thing.
find /usr/share/fonts -type d -exec touch -d @1700000000 {} +
fc-cache --system-only --force
