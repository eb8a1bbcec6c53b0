#!/usr/bin/env bash
# lock.sh [--upgrade | --upgrade-package NAME]: writes requirements/*.txt, the versions and hashes that
# `make start` and `make setup` install. Without an option it only adds what pyproject.toml newly asks for.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=.venv-lock/bin/uv
if [[ ! -x $uv ]]; then
    .venv/bin/python -m venv .venv-lock
    .venv-lock/bin/pip install --quiet --disable-pip-version-check --only-binary :all: 'uv==0.13.9'
fi

# Every file takes its versions from the first, so that no two disagree.
pinned=()
compile() {
    local name=$1
    shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --only-binary :all: --no-header --no-annotate "${pinned[@]}" "$@" --output-file "requirements/$name.txt"
    echo "requirements/$name.txt: $(grep -c '==' "requirements/$name.txt") packages"
}

extra() {
    .venv/bin/python - "$1" <<'PYTHON'
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    print("\n".join(tomllib.load(file)["project"]["optional-dependencies"][sys.argv[1]]))
PYTHON
}

compile dev pyproject.toml requirements/build.in --extra memory --extra memwal --extra static --extra dev "$@"
pinned=(--constraint requirements/dev.txt)
compile user pyproject.toml requirements/build.in --extra memwal
extra local | compile local - "$@"
extra memory | compile memory -
pinned=()
compile demo requirements/demo.in --no-deps "$@"
