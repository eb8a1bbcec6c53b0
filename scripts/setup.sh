#!/bin/sh
# setup.sh user|dev: brings .venv up to date with a Python that can: 3.11 or newer, with ensurepip.
# PYTHON= names one; otherwise the newest usable of the usual names is taken.
set -eu
cd "$(dirname "$0")/.."

if [ -z "${PYTHON:-}" ] && .venv/bin/python scripts/bootstrap.py --check "$1" 2>/dev/null; then
    exit 0
fi

fitting='import sys; sys.exit(sys.version_info < (3, 11))'
# A removed package leaves an empty folder, which still imports.
complete='import venv; from ensurepip import version'
seen=''
bare=''

for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
    version=$("$candidate" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
    seen="$seen $candidate ($version)"
    "$candidate" -c "$fitting" || continue
    if "$candidate" -c "$complete" 2>/dev/null; then
        exec "$candidate" scripts/bootstrap.py "$1"
    fi
    bare=${bare:-python${version%.*}}
done

if [ -n "$bare" ]; then
    cat >&2 <<EOF
$bare is here, but not the part of it that makes virtual environments (ensurepip).
Try:  sudo apt-get install $bare-venv
Then run the same make command again.
EOF
elif [ -n "$seen" ]; then
    cat >&2 <<EOF
Skerry needs Python 3.11 or newer. Found:$seen
Try:  sudo apt-get install python3.11 python3.11-venv
Or name another one:  make start PYTHON=/path/to/python3
EOF
else
    cat >&2 <<EOF
Skerry needs Python 3.11 or newer; ${PYTHON:-python3} does not run here.
Try:  sudo apt-get install python3 python3-venv
Or name another one:  make start PYTHON=/path/to/python3
EOF
fi
exit 1
