#!/bin/sh
# What the desktop needs made once, as root, after its packages and files are there. HOME_DIR is the user's home.
set -eu
home=${HOME_DIR:-/home/user} uid=${DESK_UID:-1000} gid=${DESK_GID:-1000}
mkdir -p "$home/Desktop" "$home/Documents" "$home/Downloads" "$home/Music" "$home/Pictures" "$home/Videos" \
    "$home/.local/share/applications"
chown -R $uid:$gid "$home"
chmod 755 /opt/deskyard/bin/*
