#!/bin/sh
# Does it come up where there is next to nothing? Makes a bare Debian 12 with git, make and python3, copies the
# committed project into it, and in a container without any privilege runs `make up`, then every task of
# deskyard-basics. No container can run in there, so the desktops are of the process engine.
#
#   deploy/try-in-container.sh             make up, all tasks, Ctrl-C, nothing left
#   deploy/try-in-container.sh COMMAND…    another command, in the project's folder
#
# Needs root, podman and debootstrap. The machine's apt, pip and npm client configuration is copied in where there is
# any, nothing is mounted, and the network is the host's. TRY_HOME (default /var/tmp/deskyard-try) keeps the bare
# system for the next time.
set -eu
cd "$(dirname "$0")/.."

home=${TRY_HOME:-/var/tmp/deskyard-try}
mkdir -p "$home"
image=localhost/deskyard-try:bookworm
engine() { podman --root "$home/storage" --runroot "$home/run" --cgroup-manager cgroupfs "$@"; }

# ── a bare Debian 12 ──────────────────────────────────────────────────────────────────────────────────────────────

if ! engine image exists "$image"; then
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Codename: bookworm' | head -n 1)
    echo "Making a bare Debian 12 (half a minute) …"
    rm -rf "$home/root"
    debootstrap --variant=minbase --include=git,make,python3,ca-certificates bookworm "$home/root" \
        ${mirror:+"$mirror"} >"$home/debootstrap.log" 2>&1 || {
        tail -n 5 "$home/debootstrap.log" >&2
        exit 1
    }
    # How this machine's clients reach their packages.
    for path in /etc/apt /etc/pip.conf /etc/npmrc /usr/etc/npmrc /usr/local/etc/npmrc /root/.npmrc \
        /root/.config/pip /root/.pip /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates; do
        [ -e "$path" ] || continue
        rm -rf "$home/root$path"
        mkdir -p "$home/root$(dirname "$path")"
        cp -a "$path" "$home/root$path"
    done
    rm -rf "$home/root/var/cache/apt/archives"/*.deb
    tar -C "$home/root" -c . | engine import - "$image" >/dev/null
    rm -rf "$home/root"
fi

# ── the project as committed ──────────────────────────────────────────────────────────────────────────────────────

rm -rf "$home/project"
git clone -q . "$home/project"

if [ $# = 0 ]; then
    set -- sh deploy/up-and-play.sh
fi
settings=$(env | sed -n 's/^\(PIP_[A-Z_]*\|NPM_CONFIG_[A-Z_]*\|UV_[A-Z_]*\|http_proxy\|https_proxy\|no_proxy\)=.*/--env=\1/p')
# shellcheck disable=SC2086 # one option a word
container=$(engine create --network host --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 --workdir /srv/deskyard $settings "$image" "$@")
trap 'engine rm -f -t 5 "$container" >/dev/null' EXIT
engine cp "$home/project" "$container:/srv/deskyard"
engine start --attach "$container"
