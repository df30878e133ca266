#!/bin/sh
# What the desktop needs made once, as root, after its packages and files are there. HOME_DIR is the user's home.
set -eu
home=${HOME_DIR:-/home/user}
mkdir -p "$home/Desktop" "$home/Documents" "$home/Downloads" "$home/Music" "$home/Pictures" "$home/Videos" \
    "$home/.local/share/applications"
chown -R 1000:1000 "$home"
chmod 755 /opt/deskyard/bin/*
