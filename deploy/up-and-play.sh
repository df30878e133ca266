#!/bin/sh
# `make up`, every task of deskyard-basics through the API, Ctrl-C, and a look at what is left. For try-in-container.sh.
set -eu
cd "$(dirname "$0")/.."
: "${DESKYARD_PORT:=8123}"
export DESKYARD_PORT

make up &
up=$!
trap 'kill -INT "$up" 2>/dev/null || true' EXIT

until [ -f .venv/deskyard.lock ] && .venv/bin/python -m console.embedded is-up; do
    kill -0 "$up" 2>/dev/null || { echo "make up has ended by itself" >&2; exit 1; }
    sleep 2 # between two looks
done
played=0
.venv/bin/python -m console.embedded play --template office || played=$?

make down
wait "$up" || true
trap - EXIT
left=$(for status in /proc/[0-9]*/status; do
    sed -n 's/^Name:[[:space:]]*//p' "$status" 2>/dev/null || true # a process may end meanwhile
done | grep -E '^(Xvnc|postgres|python|openbox|dbus-daemon|make)' || true)
if [ -n "$left" ]; then
    echo "Left running:" && echo "$left"
    exit 1
fi
echo "Nothing is left running."
exit "$played"
