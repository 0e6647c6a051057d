#!/usr/bin/env bash
# What the Makefile's targets stand on, safe to repeat:
#   deploy/setup.sh venv      .venv holds what requirements.lock pins
#   deploy/setup.sh browser   a Chromium is on PATH; if none can be had, the browser tests skip
# and what CI adds, since a database server is nothing to put on somebody's laptop unasked:
#   deploy/setup.sh postgresql   Debian's PostgreSQL is there; if not, the tests with it skip
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "setup: $*" >&2; }

as_root() {
    if [[ $(id -u) == 0 ]]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

# Installs a Debian package where that needs no password; fails where it does.
apt_install() {
    command -v apt-get >/dev/null && as_root apt-get update -qq >&2 &&
        as_root apt-get install -y -qq --no-install-recommends "$1" >&2
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    say "Python 3.11 or newer is needed; found only $(python3 --version 2>&1 || echo none)."
    say "Install one, or name it: PYTHON=/path/to/python3.12 make run"
    return 1
}

make_venv() {
    local python
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        say "Python has no venv module; trying to install it"
        if ! apt_install python3-venv || ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            say "Python's venv module is missing. On Debian and Ubuntu: apt-get install python3-venv"
            return 1
        fi
    fi
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
}

prepare_venv() {
    local stamp=.venv/installed.lock # a copy of the lock that was installed
    if .venv/bin/python -c '' 2>/dev/null && cmp -s requirements.lock "$stamp"; then
        return
    fi
    .venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv
    say "installing what requirements.lock pins (PyTorch is big: some minutes the first time)"
    local verbosity=-qq # a log needs errors only; in a terminal pip shows how far it is
    if [[ -t 1 ]]; then verbosity=--progress-bar=on; fi
    .venv/bin/python -m pip install "$verbosity" -r requirements.lock
    cp requirements.lock "$stamp"
}

prepare_browser() {
    local name
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        if command -v "$name" >/dev/null; then return; fi
    done
    say "no Chromium on PATH; trying to install it"
    apt_install chromium || say "Chromium could not be installed: the browser tests will be skipped"
}

prepare_postgresql() {
    if compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then return; fi
    say "no PostgreSQL in /usr/lib/postgresql; trying to install it"
    apt_install postgresql || say "PostgreSQL could not be installed: its tests will be skipped"
}

case "${1:-}" in
    venv) prepare_venv ;;
    browser) prepare_browser ;;
    postgresql) prepare_postgresql ;;
    *)
        say "say venv, browser or postgresql"
        exit 2
        ;;
esac
