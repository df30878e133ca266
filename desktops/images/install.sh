#!/bin/sh
# Install the Debian packages that the files named hold, with the apt settings in /run/apt if there are any, and
# leave neutral settings behind. Also used on a host by the process engine, with KEEP_APT=1.
set -eu
export DEBIAN_FRONTEND=noninteractive
if [ -z "${KEEP_APT:-}" ]; then
    cp -a /etc/apt /etc/apt.own
    if [ -e /run/apt/sources.list ] || [ -e /run/apt/sources.list.d ]; then
        rm -rf /etc/apt/sources.list /etc/apt/sources.list.d
    fi
    [ -d /run/apt ] && cp -r /run/apt/. /etc/apt/
    [ -d /etc/apt/ca ] && { cp /etc/apt/ca/* /usr/local/share/ca-certificates/ && update-ca-certificates >/dev/null; }
    # No start of services, no documentation, no translations.
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d
    printf 'path-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\npath-exclude=/usr/share/help/*\n' \
        > /etc/dpkg/dpkg.cfg.d/deskyard
    mkdir -p /usr/share/man/man1
fi
apt-get -q -o Acquire::Languages=none update
sed 's/#.*//' "$@" | xargs apt-get -q -y -o Dpkg::Use-Pty=0 -o APT::Install-Recommends=false \
    -o Acquire::Retries=3 install
if [ -z "${KEEP_APT:-}" ]; then
    rm -rf /etc/apt && mv /etc/apt.own /etc/apt
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /usr/sbin/policy-rc.d
fi
if [ -x /usr/sbin/locale-gen ] && ! locale -a | grep -qi '^en_US.utf-\?8$'; then
    localedef -i en_US -f UTF-8 en_US.UTF-8
fi
