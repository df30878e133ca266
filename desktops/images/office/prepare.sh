#!/bin/sh
# Make the first start of every application as quiet and as fast as the second, as root. HOME_DIR is the user's home.
set -eu
home=${HOME_DIR:-/home/user} uid=${DESK_UID:-1000} gid=${DESK_GID:-1000}
as_user() { setpriv --reuid=$uid --regid=$gid --clear-groups env HOME="$home" XDG_RUNTIME_DIR=/tmp/prepare "$@"; }
chmod 755 /opt/deskyard/bin/*
mkdir -p /tmp/prepare && chown $uid:$gid /tmp/prepare && chmod 700 /tmp/prepare
chown -R $uid:$gid "$home"

mkdir -p /etc/chromium.d && cp /opt/deskyard/build/chromium.flags /etc/chromium.d/deskyard
ln -sfn chromium /usr/lib/chromium/chrome

# LibreOffice makes its profile when it first runs: let it, then switch off tips and news.
printf 'a,b\n1,2\n' > /tmp/prepare/first.csv && chown $uid:$gid /tmp/prepare/first.csv
as_user timeout 180 soffice --headless --convert-to ods --outdir /tmp/prepare /tmp/prepare/first.csv >/dev/null
test -s /tmp/prepare/first.ods
version=$(as_user soffice --version | sed -nE 's/^LibreOffice ([0-9]+\.[0-9]+).*/\1/p')
python3 /opt/deskyard/build/libreoffice.py "$home/.config/libreoffice/4/user/registrymodifications.xcu" "$version"
chown -R $uid:$gid "$home/.config/libreoffice"

# GIMP asks all its plug-ins what they can do when it first runs, which takes longer than everything after it.
as_user timeout 300 gimp --no-interface --batch '(gimp-quit 0)' >/dev/null 2>&1
test -s "$home/.config/GIMP/2.10/pluginrc"
printf '(check-updates no)\n(color-profile-policy keep)\n' >> "$home/.config/GIMP/2.10/gimprc"
chown -R $uid:$gid "$home/.config/GIMP"
rm -rf /tmp/prepare
